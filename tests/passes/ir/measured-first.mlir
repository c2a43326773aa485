// A tensor whose width the run chooses is measured by the dgrad that reads it, which goes before the wgrad with what it
// is computed from. What a wgrad without a dgrad reads, and contractions of fixed widths, stay where they are.
// CHECK-LABEL: func.func @main
// CHECK:         %[[BOTH:.*]] = arith.addf %arg0, %arg0 : tensor<4x4xf32>
// CHECK:         %[[DGRAD:.*]] = linalg.generic {{.*}} ins(%[[BOTH]], %arg1 : tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK:         %[[WGRAD:.*]] = linalg.generic {{.*}} ins(%arg0, %arg2 : tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK:         %[[OTHER:.*]] = linalg.generic {{.*}} ins(%arg0, %arg0 : tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK:         %[[FIRST:.*]] = linalg.generic {{.*}} ins(%arg0, %[[OTHER]] : tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK:         return %[[WGRAD]], %[[DGRAD]], %[[OTHER]], %[[FIRST]]
#ik = affine_map<(i, j, k) -> (i, k)>
#kj = affine_map<(i, j, k) -> (k, j)>
#ij = affine_map<(i, j, k) -> (i, j)>
#loops = {indexing_maps = [#ik, #kj, #ij], iterator_types = ["parallel", "parallel", "reduction"]}
module attributes {numc.layers = [
    {layer = "1/dgrad", position = 0 : i64, role = "dgrad"}, {layer = "1/wgrad", position = 1 : i64, role = "wgrad"},
    {layer = "2/dgrad", position = 2 : i64, role = "dgrad"}, {layer = "0/wgrad", position = 3 : i64, role = "wgrad"}],
    numc.widths = [["1/dgrad", "a", 3, 3, 2, 4], ["1/wgrad", "a", 3, 3, 2, 4], ["0/wgrad", "a", 3, 3, 2, 4]]} {
  func.func @main(%g: tensor<4x4xf32>, %w: tensor<4x4xf32>, %a: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
    %zero = arith.constant dense<0.0> : tensor<4x4xf32>
    %wgrad = linalg.generic #loops ins(%g, %a : tensor<4x4xf32>, tensor<4x4xf32>) outs(%zero : tensor<4x4xf32>) {
    ^bb0(%x: f32, %y: f32, %z: f32):
      %r = "numc.fma"(%x, %y, %z) {fma = "fma(a=bfp(16,3,2..4),acc=fp32)", widths = {a = 1, b = 2}} : (f32, f32, f32) -> f32
      linalg.yield %r : f32
    } -> tensor<4x4xf32> loc("1/wgrad")
    %other = linalg.generic #loops ins(%g, %g : tensor<4x4xf32>, tensor<4x4xf32>) outs(%zero : tensor<4x4xf32>) {
    ^bb0(%x: f32, %y: f32, %z: f32):
      %r = "numc.fma"(%x, %y, %z) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
      linalg.yield %r : f32
    } -> tensor<4x4xf32> loc("2/dgrad")
    %both = arith.addf %g, %g : tensor<4x4xf32>
    %dgrad = linalg.generic #loops ins(%both, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%zero : tensor<4x4xf32>) {
    ^bb0(%x: f32, %y: f32, %z: f32):
      %r = "numc.fma"(%x, %y, %z) {fma = "fma(a=bfp(16,3,2..4),acc=fp32)", widths = {a = 0, b = 2}} : (f32, f32, f32) -> f32
      linalg.yield %r : f32
    } -> tensor<4x4xf32> loc("1/dgrad")
    %first = linalg.generic #loops ins(%g, %other : tensor<4x4xf32>, tensor<4x4xf32>) outs(%zero : tensor<4x4xf32>) {
    ^bb0(%x: f32, %y: f32, %z: f32):
      %r = "numc.fma"(%x, %y, %z) {fma = "fma(a=bfp(16,3,2..4),acc=fp32)", widths = {a = 3, b = 4}} : (f32, f32, f32) -> f32
      linalg.yield %r : f32
    } -> tensor<4x4xf32> loc("0/wgrad")
    return %wgrad, %dgrad, %other, %first : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
}
