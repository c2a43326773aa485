// A product, its sums, their quotients and the next product go through a region, with the buffers between them. What has
// nothing to do with them goes before it, and what frees an operand behind it.
// CHECK-LABEL: func.func @main
// CHECK:         ins(%cst : f32) outs(%arg2 : memref<9xf32>)
// CHECK:         %[[RESULT:.*]] = memref.alloc() : memref<2x5x4xf32>
// CHECK-NEXT:    scf.execute_region no_inline {
// CHECK-NEXT:      %[[SCORES:.*]] = memref.alloc() : memref<2x5x7xf32>
// CHECK-NEXT:      scf.execute_region no_inline {
// CHECK:           } {numc.contraction = {{.*}} layer = "scores"
// CHECK-NEXT:      memref.alloc() : memref<2x5x1xf32>
// CHECK-NEXT:      linalg.generic {{.*}} attrs = {numc.rows = 2 : i64}
// CHECK:           linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[SCORES]] {{.*}} attrs = {numc.rows = 2 : i64}
// CHECK:           memref.dealloc %[[SCORES]]
// CHECK:           scf.execute_region no_inline {
// CHECK:           } {numc.contraction = {{.*}} layer = "result"
// CHECK-NEXT:      memref.dealloc
// CHECK-NEXT:      scf.yield
// CHECK-NEXT:    } {numc.rows = [0, 1]}
// CHECK-NEXT:    memref.dealloc %{{.*}} : memref<2x7x4xf32>
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> ()>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map5 = affine_map<(d0) -> ()>
#map6 = affine_map<(d0) -> (d0)>
#map7 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#map8 = affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>
module {
  func.func @main(%arg0: memref<2x5x4xf32>, %arg1: memref<2x7x4xf32>, %arg2: memref<9xf32>, %arg3: memref<2x5x4xf32>) {
    %cst = arith.constant 0.000000e+00 : f32
    %alloc = memref.alloc() : memref<2x7x4xf32>
    linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg1 : memref<2x7x4xf32>) outs(%alloc : memref<2x7x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %0 = arith.negf %in : f32
      linalg.yield %0 : f32
    }
    %alloc_0 = memref.alloc() {alignment = 64 : i64} : memref<2x5x7xf32>
    scf.execute_region no_inline {
      linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst : f32) outs(%alloc_0 : memref<2x5x7xf32>) {
      ^bb0(%in: f32, %out: f32):
        linalg.yield %in : f32
      }
      linalg.generic {indexing_maps = [#map2, #map3, #map4], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%arg0, %alloc : memref<2x5x4xf32>, memref<2x7x4xf32>) outs(%alloc_0 : memref<2x5x7xf32>) {
      ^bb0(%in: f32, %in_4: f32, %out: f32):
        %0 = "numc.fma"(%in, %in_4, %out) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
        linalg.yield %0 : f32
      }
      scf.yield
    } {numc.contraction = {batch = [0], id = 0 : i64, k = [3], lanes = [2], layer = "scores", operator = "bf16_1_1", phases = false, role = "", rows = [1], sizes = [2, 5, 7, 4], swap = false}, numc.plan = {counts = 0 : i64, epilogue = "none", guarded = true, packing = {lanes = "transposed panels", rows = "panels"}, dot = 0 : i64, prologue = "fill with 0.0", tasks = "blocks of rows and lanes", tile = {k_block = 256 : i64, narrow = false, partial = [], rows = 5 : i64, vectors = 1 : i64, width = 8 : i64}, way = "panels", why = "lanes fit into one vector (7): more rows; the steps of k of a lane are adjacent"}}
    memref.dealloc %alloc : memref<2x7x4xf32>
    %alloc_1 = memref.alloc() {alignment = 64 : i64} : memref<2x5x1xf32>
    linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst : f32) outs(%alloc_1 : memref<2x5x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
    linalg.generic {indexing_maps = [#map5, #map6], iterator_types = ["parallel"]} ins(%cst : f32) outs(%arg2 : memref<9xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
    linalg.generic {indexing_maps = [#map, #map7], iterator_types = ["parallel", "parallel", "reduction"]} ins(%alloc_0 : memref<2x5x7xf32>) outs(%alloc_1 : memref<2x5x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %0 = arith.addf %in, %out : f32
      linalg.yield %0 : f32
    }
    %alloc_2 = memref.alloc() {alignment = 64 : i64} : memref<2x5x7xf32>
    linalg.generic {indexing_maps = [#map, #map7, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%alloc_0, %alloc_1 : memref<2x5x7xf32>, memref<2x5x1xf32>) outs(%alloc_2 : memref<2x5x7xf32>) {
    ^bb0(%in: f32, %in_4: f32, %out: f32):
      %0 = arith.divf %in, %in_4 : f32
      linalg.yield %0 : f32
    }
    memref.dealloc %alloc_0 : memref<2x5x7xf32>
    memref.dealloc %alloc_1 : memref<2x5x1xf32>
    %alloc_3 = memref.alloc() : memref<2x5x4xf32>
    scf.execute_region no_inline {
      linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst : f32) outs(%alloc_3 : memref<2x5x4xf32>) {
      ^bb0(%in: f32, %out: f32):
        linalg.yield %in : f32
      }
      linalg.generic {indexing_maps = [#map2, #map8, #map4], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%alloc_2, %arg1 : memref<2x5x7xf32>, memref<2x7x4xf32>) outs(%alloc_3 : memref<2x5x4xf32>) {
      ^bb0(%in: f32, %in_4: f32, %out: f32):
        %0 = "numc.fma"(%in, %in_4, %out) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
        linalg.yield %0 : f32
      }
      scf.yield
    } {numc.contraction = {batch = [0], id = 1 : i64, k = [3], lanes = [2], layer = "result", operator = "bf16_1_1", phases = false, role = "", rows = [1], sizes = [2, 5, 4, 7], swap = false}, numc.plan = {counts = 0 : i64, epilogue = "none", guarded = true, packing = {lanes = "panels", rows = "panels"}, dot = 0 : i64, prologue = "fill with 0.0", tasks = "blocks of rows and lanes", tile = {k_block = 256 : i64, narrow = false, partial = [], rows = 5 : i64, vectors = 1 : i64, width = 8 : i64}, way = "panels", why = "lanes fit into one vector (4): more rows"}}
    memref.dealloc %alloc_2 : memref<2x5x7xf32>
    memref.copy %alloc_3, %arg3 : memref<2x5x4xf32> to memref<2x5x4xf32>
    memref.dealloc %alloc_3 : memref<2x5x4xf32>
    return
  }
}
