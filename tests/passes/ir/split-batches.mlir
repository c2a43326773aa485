// A weight is repeated for 2 x 3 batches, which are one dimension in the product only. It is read as it is, and what
// follows has the shape of the product. The operand of the second product has one dimension of batches itself, that of
// the third one more than two: they are taken apart, and joined. So is the one batch of the last product.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     tensor.expand_shape
// CHECK:         %[[PRODUCT:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%arg0, %{{.*}} : tensor<2x3x5x8xf32>, tensor<2x3x8x4xf32>) outs({{.*}} : tensor<2x3x5x4xf32>)
// CHECK:         %[[APART:.*]] = tensor.expand_shape %{{.*}} {{\[\[}}0, 1], [2], [3]{{\]}}
// CHECK:         %[[SECOND:.*]] = linalg.generic {{.*}} ins(%[[APART]], %{{.*}} : tensor<2x3x5x8xf32>, tensor<2x3x8x4xf32>)
// CHECK:         %[[JOINED:.*]] = tensor.collapse_shape %arg3 {{\[\[}}0], [1, 2], [3], [4]{{\]}}
// CHECK:         %[[THIRD:.*]] = linalg.generic {{.*}} ins(%[[JOINED]], %{{.*}} : tensor<2x3x5x8xf32>, tensor<2x3x8x4xf32>)
// CHECK:         %[[SINGLE:.*]] = tensor.expand_shape %arg5 {{\[\[}}0, 1], [2], [3]{{\]}}
// CHECK:         %[[LAST:.*]] = linalg.generic {{.*}} ins(%arg4, %[[SINGLE]] : tensor<1x1x5x8xf32>, tensor<1x1x8x4xf32>)
// CHECK:         return %[[PRODUCT]], %[[SECOND]], %[[THIRD]], %[[LAST]]
#w = affine_map<(a, b, k, n) -> (k, n)>
#all = affine_map<(a, b, k, n) -> (a, b, k, n)>
#x = affine_map<(b, m, n, k) -> (b, m, k)>
#y = affine_map<(b, m, n, k) -> (b, k, n)>
#z = affine_map<(b, m, n, k) -> (b, m, n)>
func.func @main(%x: tensor<2x3x5x8xf32>, %w: tensor<8x4xf32>, %v: tensor<6x5x4x2xf32>, %h: tensor<2x1x3x5x8xf32>, %i: tensor<1x1x5x8xf32>, %j: tensor<1x8x4xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>, tensor<1x1x5x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x3x8x4xf32>
  %r = linalg.generic {indexing_maps = [#w, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%w : tensor<8x4xf32>) outs(%e : tensor<2x3x8x4xf32>) {
  ^bb0(%s: f32, %o: f32):
    linalg.yield %s : f32
  } -> tensor<2x3x8x4xf32>
  %xc = tensor.collapse_shape %x [[0, 1], [2], [3]] : tensor<2x3x5x8xf32> into tensor<6x5x8xf32>
  %wc = tensor.collapse_shape %r [[0, 1], [2], [3]] : tensor<2x3x8x4xf32> into tensor<6x8x4xf32>
  %vc = tensor.collapse_shape %v [[0], [1], [2, 3]] : tensor<6x5x4x2xf32> into tensor<6x5x8xf32>
  %uc = tensor.collapse_shape %h [[0, 1, 2], [3], [4]] : tensor<2x1x3x5x8xf32> into tensor<6x5x8xf32>
  %f = tensor.empty() : tensor<6x5x4xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> ()>, affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%zero : f32) outs(%f : tensor<6x5x4xf32>) {
  ^bb0(%s: f32, %o: f32):
    linalg.yield %s : f32
  } -> tensor<6x5x4xf32>
  %p = linalg.generic {indexing_maps = [#x, #y, #z], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%xc, %wc : tensor<6x5x8xf32>, tensor<6x8x4xf32>) outs(%g : tensor<6x5x4xf32>) {
  ^bb0(%u: f32, %t: f32, %o: f32):
    %s = "numc.fma"(%u, %t, %o) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<6x5x4xf32>
  %q = linalg.generic {indexing_maps = [#x, #y, #z], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%vc, %wc : tensor<6x5x8xf32>, tensor<6x8x4xf32>) outs(%g : tensor<6x5x4xf32>) {
  ^bb0(%u: f32, %t: f32, %o: f32):
    %s = "numc.fma"(%u, %t, %o) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<6x5x4xf32>
  %d = linalg.generic {indexing_maps = [#x, #y, #z], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%uc, %wc : tensor<6x5x8xf32>, tensor<6x8x4xf32>) outs(%g : tensor<6x5x4xf32>) {
  ^bb0(%u: f32, %t: f32, %o: f32):
    %s = "numc.fma"(%u, %t, %o) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<6x5x4xf32>
  %pe = tensor.expand_shape %p [[0, 1], [2], [3]] output_shape [2, 3, 5, 4] : tensor<6x5x4xf32> into tensor<2x3x5x4xf32>
  %qe = tensor.expand_shape %q [[0, 1], [2], [3]] output_shape [2, 3, 5, 4] : tensor<6x5x4xf32> into tensor<2x3x5x4xf32>
  %de = tensor.expand_shape %d [[0, 1], [2], [3]] output_shape [2, 3, 5, 4] : tensor<6x5x4xf32> into tensor<2x3x5x4xf32>
  %ic = tensor.collapse_shape %i [[0, 1], [2], [3]] : tensor<1x1x5x8xf32> into tensor<1x5x8xf32>
  %b = tensor.empty() : tensor<1x5x4xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> ()>, affine_map<(b, m, n) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%zero : f32) outs(%b : tensor<1x5x4xf32>) {
  ^bb0(%s: f32, %o: f32):
    linalg.yield %s : f32
  } -> tensor<1x5x4xf32>
  %k = linalg.generic {indexing_maps = [#x, #y, #z], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%ic, %j : tensor<1x5x8xf32>, tensor<1x8x4xf32>) outs(%c : tensor<1x5x4xf32>) {
  ^bb0(%u: f32, %t: f32, %o: f32):
    %s = "numc.fma"(%u, %t, %o) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<1x5x4xf32>
  %ke = tensor.expand_shape %k [[0, 1], [2], [3]] output_shape [1, 1, 5, 4] : tensor<1x5x4xf32> into tensor<1x1x5x4xf32>
  return %pe, %qe, %de, %ke : tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>, tensor<1x1x5x4xf32>
}
