// Two products of %x with adjacent slices of %w become one product with both; each result is a slice of the whole.
// A third one, of another operand, stays.
// CHECK-LABEL: func.func @main
// CHECK:         %[[BOTH:.*]] = tensor.extract_slice %arg1[0, 0] [8, 16] [1, 1]
// CHECK:         %[[WHOLE:.*]] = linalg.generic {{.*}} ins(%arg0, %[[BOTH]] : tensor<?x16xf32>, tensor<8x16xf32>) outs({{.*}} : tensor<?x8xf32>)
// CHECK:         %[[LOW:.*]] = tensor.extract_slice %[[WHOLE]][0, 0] [%{{.*}}, 4] [1, 1]
// CHECK:         %[[HIGH:.*]] = tensor.extract_slice %[[WHOLE]][0, 4] [%{{.*}}, 4] [1, 1]
// CHECK:         %[[OTHER:.*]] = linalg.generic {{.*}} ins(%arg2, %{{.*}} : tensor<?x16xf32>, tensor<4x16xf32>)
// CHECK:         return %[[HIGH]], %[[LOW]], %[[OTHER]]
#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (j, k)>
#c = affine_map<(i, j, k) -> (i, j)>
func.func @main(%x: tensor<?x16xf32>, %w: tensor<8x16xf32>, %y: tensor<?x16xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x16xf32>
  %e = tensor.empty(%n) : tensor<?x4xf32>
  %f = linalg.generic {indexing_maps = [affine_map<(i, j) -> ()>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%zero : f32) outs(%e : tensor<?x4xf32>) {
  ^bb0(%s: f32, %o: f32):
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  %high = tensor.extract_slice %w[4, 0] [4, 16] [1, 1] : tensor<8x16xf32> to tensor<4x16xf32>
  %low = tensor.extract_slice %w[0, 0] [4, 16] [1, 1] : tensor<8x16xf32> to tensor<4x16xf32>
  %p = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %high : tensor<?x16xf32>, tensor<4x16xf32>) outs(%f : tensor<?x4xf32>) {
  ^bb0(%u: f32, %v: f32, %o: f32):
    %s = "numc.fma"(%u, %v, %o) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  %q = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %low : tensor<?x16xf32>, tensor<4x16xf32>) outs(%f : tensor<?x4xf32>) {
  ^bb0(%u: f32, %v: f32, %o: f32):
    %s = "numc.fma"(%u, %v, %o) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  %r = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%y, %low : tensor<?x16xf32>, tensor<4x16xf32>) outs(%f : tensor<?x4xf32>) {
  ^bb0(%u: f32, %v: f32, %o: f32):
    %s = "numc.fma"(%u, %v, %o) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  return %p, %q, %r : tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>
}
