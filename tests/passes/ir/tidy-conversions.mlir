// A value that is in the format already is not rounded again, also through a ReLU and a reshape.
// CHECK-LABEL: func.func @main
// CHECK:         "numc.round"(%{{.*}}) {to = "bf16"}
// CHECK:         arith.maximumf
// CHECK-NOT:     "numc.round"(%{{.*}}) {to = "bf16"}
// CHECK:         "numc.round"(%{{.*}}) {to = "e6m9"}
func.func @main(%a: tensor<8xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%x: f32, %y: f32):
    %p = "numc.round"(%x) {to = "bf16"} : (f32) -> f32
    %m = arith.maximumf %p, %zero : f32
    linalg.yield %m : f32
  } -> tensor<8xf32>
  %s = tensor.expand_shape %r [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>
  %f = tensor.empty() : tensor<2x4xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<2x4xf32>) outs(%f : tensor<2x4xf32>) {
  ^bb0(%x: f32, %y: f32):
    %p = "numc.round"(%x) {to = "bf16"} : (f32) -> f32
    %q = "numc.round"(%p) {to = "e6m9"} : (f32) -> f32
    linalg.yield %q : f32
  } -> tensor<2x4xf32>
  return %t : tensor<2x4xf32>
}
