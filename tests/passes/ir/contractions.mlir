// A planned product becomes a call that carries the texts of its kernels, and the sizes that these are launched with; of
// an operator that has no kernel of tiles, but is a step by itself, the loops stay.
// CHECK:       func.func private @numc_contraction_0(memref<5x7xf32>, memref<7x4xf32>, memref<5x4xf32>)
// CHECK-LABEL: func.func @main
// CHECK:         call @numc_contraction_0(%arg0, %arg1, %arg2) {numc.tiles = {
// CHECK-SAME:    block = 1 : i64, deep = 16 : i64, draws = false, kernels = {lanes = "@gluon.jit
// CHECK-SAME:    operands = [{parts = 1 : i64, shared = true}, {parts = 1 : i64, shared = true}], operator = "bf16_1_1"
// CHECK-SAME:    sizes = {batch = [], k = [7], lanes = [4], rows = [5]}, tile = [128, 64]
// CHECK-NOT:     call @numc_contraction_1
// CHECK:         "numc.fma"{{.*}} {fma = "fma(a=bf16,product=e5m2..7,acc=fp32)"
#a = affine_map<(d0, d1, d2) -> (d0, d2)>
#b = affine_map<(d0, d1, d2) -> (d2, d1)>
#c = affine_map<(d0, d1, d2) -> (d0, d1)>
module {
  func.func @main(%arg0: memref<5x7xf32>, %arg1: memref<7x4xf32>, %arg2: memref<5x4xf32>) {
    linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : memref<5x7xf32>, memref<7x4xf32>) outs(%arg2 : memref<5x4xf32>) {
    ^bb0(%x: f32, %y: f32, %z: f32):
      %0 = "numc.round"(%x) {to = "bf16"} : (f32) -> f32
      %1 = "numc.round"(%y) {to = "bf16"} : (f32) -> f32
      %2 = "numc.fma"(%0, %1, %z) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
      linalg.yield %2 : f32
    }
    linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : memref<5x7xf32>, memref<7x4xf32>) outs(%arg2 : memref<5x4xf32>) {
    ^bb0(%x: f32, %y: f32, %z: f32):
      %0 = "numc.round"(%x) {to = "bf16"} : (f32) -> f32
      %1 = "numc.round"(%y) {to = "bf16"} : (f32) -> f32
      %2 = "numc.fma"(%0, %1, %z) {fma = "fma(a=bf16,product=e5m2..7,acc=fp32)", widths = {product = 0 : i64}} : (f32, f32, f32) -> f32
      linalg.yield %2 : f32
    }
    return
  }
}
