// A contraction becomes a call; its offset tables are filled by a function that starts the tasks of the shared kernel.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     linalg.generic
// CHECK:         %[[ID:.*]] = arith.constant 0 : index
// CHECK:         call @contraction_0(%arg0, %arg1, %arg2, %[[ID]])
// CHECK:       func.func private @contraction_0
// CHECK:         llvm.call @numc_parallel
// CHECK:       func.func private @numc_bf16_1_1_4x16_exact
func.func @main(%a: memref<4x8xf32>, %b: memref<8x4xf32>, %c: memref<4x4xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<4x8xf32>, memref<8x4xf32>) outs(%c : memref<4x4xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %s = "numc.fma"(%x, %y, %z) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  }
  return
}
