// What depends on weights alone leaves @main; a broadcast of a weight stays, and so does what an input goes into.
// The module that computes it, and the arguments it takes, are an attribute; what it computes is a new argument.
// CHECK-LABEL: module attributes {numc.constants = {arguments = [2], module = [{{.*}}math.rsqrt
// CHECK-LABEL: func.func @main(%arg0: tensor<8x4xf32>, %arg1: tensor<4xf32> {numc.weight = "bias"}, %arg2: tensor<4xf32> {numc.weight = "var"}, %arg3: tensor<1x4xf32> {numc.folded = 0 : i64, numc.weight = "folded_0"})
// CHECK-NOT:     math.rsqrt
// CHECK:         linalg.generic {{.*}} ins(%arg1 : tensor<4xf32>)
// CHECK:         linalg.generic {{.*}} ins(%arg0, %arg3 :
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      arith.mulf
func.func @main(%x: tensor<8x4xf32>, %bias: tensor<4xf32> {numc.weight = "bias"}, %var: tensor<4xf32> {numc.weight = "var"}) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %e = tensor.empty() : tensor<4xf32>
  %f = tensor.empty() : tensor<8x4xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%bias : tensor<4xf32>) outs(%f : tensor<8x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<8x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%var : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %y = math.rsqrt %a : f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  %v = tensor.expand_shape %r [[0, 1]] output_shape [1, 4] : tensor<4xf32> into tensor<1x4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (0, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x, %v : tensor<8x4xf32>, tensor<1x4xf32>) outs(%f : tensor<8x4xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %p = arith.mulf %a, %c : f32
    linalg.yield %p : f32
  } -> tensor<8x4xf32>
  return %y, %b : tensor<8x4xf32>, tensor<8x4xf32>
}
