// Scales of tiles of two rows: each operand is cut into tiles, whose largest magnitudes give divisors; elements are
// rounded, and what is contracted is values, by an operator that kernels have. A contraction without such scales stays.
// CHECK-LABEL: func.func @main
// CHECK:         tensor.expand_shape %{{.*}} : tensor<32xf32> into tensor<2x2x2x4xf32>
// CHECK:         arith.maxui
// CHECK:         arith.divf
// CHECK:         "numc.round"(%{{.*}}) {to = "e4m3fn"}
// CHECK:         arith.mulf
// CHECK-NOT:     rows=2
// CHECK:         "numc.fma"(%{{.*}}) {fma = "fp32"{{.*}}}
// CHECK-NOT:     tensor.expand_shape
// CHECK:         "numc.fma"(%{{.*}}) {fma = "mp"}
// CHECK:         return
func.func @main(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<4x4xf32>) {
  ^bb0(%o: f32):
    linalg.yield %zero : f32
  } -> tensor<4x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<4x8xf32>, tensor<4x8xf32>) outs(%z : tensor<4x4xf32>) attrs = {numc.layer = {name = "tiles", kind = "matmul", role = "forward", position = 0 : i64}} {
  ^bb0(%x: f32, %y: f32, %c: f32):
    %s = "numc.fma"(%x, %y, %c) {fma = "fma(a=mx(e4m3fn,4,scale=fp32,rows=2),acc=fp32)", number = 3 : i64} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<4x8xf32>, tensor<4x8xf32>) outs(%z : tensor<4x4xf32>) {
  ^bb0(%x: f32, %y: f32, %c: f32):
    %s = "numc.fma"(%x, %y, %c) {fma = "mp"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  return %r, %p : tensor<4x4xf32>, tensor<4x4xf32>
}
