// Contiguous dimensions are one loop, whose tasks the thread pool shares; equal loops share a function, and so do those
// through all of dense buffers, whatever their shape.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-3:  call @loops_0
// CHECK:         call @loops_1
// CHECK:         call @loops_2
// CHECK:       func.func private @loops_0
// CHECK:         llvm.call @numc_parallel
// CHECK:       llvm.func @loops_0_task
// CHECK:         scf.for
// CHECK-NOT:     scf.for
// CHECK:         arith.negf
//
// Too little work for a task: a plain call. Rows are transposed into lanes, each of which has its sum in order.
// CHECK:       func.func private @loops_1
// CHECK:         llvm.call @loops_1_task
// CHECK:       llvm.func @loops_1_task
// CHECK:         scf.for
// CHECK:         scf.for {{.*}} iter_args({{.*}} -> (vector<8xf32>)
// CHECK-COUNT-8: llvm.load {{.*}} -> vector<4xf32>
// CHECK:         llvm.shufflevector
// CHECK-COUNT-4: arith.addf {{.*}} : vector<8xf32>
//
// A small window slides over neighbours: a vector of maxima stays in registers. Of every other element, none is read
// beyond the last one that is needed.
// CHECK:       llvm.func @loops_2_task
// CHECK-COUNT-2: scf.for {{.*}} iter_args({{.*}} -> (vector<4xf32>)
// CHECK-COUNT-2: llvm.load {{.*}} -> vector<4xf32>
// CHECK:         llvm.shufflevector {{.*}} [0, 2, 5, 7]
// CHECK:         arith.maximumf {{.*}} : vector<4xf32>
//
// A transposed copy reads along one loop and writes along the other.
// CHECK:       llvm.func @loops_3_task
// CHECK-COUNT-8: llvm.load {{.*}} -> vector<4xf32>
// CHECK:         llvm.shufflevector
// CHECK-COUNT-4: llvm.store {{.*}} : vector<8xf32>
//
// What is written over what is read is at one address, which LLVM would otherwise ask in the run.
// CHECK:       llvm.func @loops_4_task
// CHECK:         llvm.getelementptr %[[AT:[0-9]+]][%[[I:.*]]] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK:         llvm.getelementptr %[[AT]][%[[I]]]
// CHECK:         %[[TO:.*]] = llvm.getelementptr %[[AT]][%[[I]]]
// CHECK:         llvm.store {{.*}}, %[[TO]]
#ij = affine_map<(i, j) -> (i, j)>
#ji = affine_map<(i, j) -> (j, i)>
#id = affine_map<(i, j, k) -> (i, j, k)>
#row = affine_map<(i, j) -> (i, j)>
#sum = affine_map<(i, j) -> (i)>
#in = affine_map<(c, x, y, u, v) -> (c, x * 2 + u, y * 2 + v)>
#window = affine_map<(c, x, y, u, v) -> (u, v)>
#out = affine_map<(c, x, y, u, v) -> (c, x, y)>
func.func @main(%a: memref<8x128x256xf32>, %b: memref<8x128x256xf32>, %s: memref<16xf32>, %m: memref<16x8xf32>,
    %w: memref<3x3xf32>, %p: memref<4x9x9xf32>, %q: memref<4x4x4xf32>, %t: memref<8x16xf32>, %n: memref<16x8xf32>) {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a : memref<8x128x256xf32>) outs(%b : memref<8x128x256xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.negf %x : f32
    linalg.yield %y : f32
  }
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%b : memref<8x128x256xf32>) outs(%a : memref<8x128x256xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.negf %x : f32
    linalg.yield %y : f32
  }
  linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%m : memref<16x8xf32>) outs(%n : memref<16x8xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.negf %x : f32
    linalg.yield %y : f32
  }
  linalg.generic {indexing_maps = [#row, #sum], iterator_types = ["parallel", "reduction"]} ins(%m : memref<16x8xf32>) outs(%s : memref<16xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.addf %x, %o : f32
    linalg.yield %y : f32
  }
  linalg.generic {indexing_maps = [#in, #window, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%p, %w : memref<4x9x9xf32>, memref<3x3xf32>) outs(%q : memref<4x4x4xf32>) {
  ^bb0(%x: f32, %z: f32, %o: f32):
    %y = arith.maximumf %x, %o : f32
    linalg.yield %y : f32
  }
  linalg.generic {indexing_maps = [#ji, #ij], iterator_types = ["parallel", "parallel"]} ins(%m : memref<16x8xf32>) outs(%t : memref<8x16xf32>) {
  ^bb0(%x: f32, %o: f32):
    linalg.yield %x : f32
  }
  linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%n : memref<16x8xf32>) outs(%n : memref<16x8xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.addf %x, %x : f32
    linalg.yield %y : f32
  }
  return
}
