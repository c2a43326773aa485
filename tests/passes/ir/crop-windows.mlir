// Windows whose results are cut off go away. What is read as a whole, too, from another place on, or would need an operand to
// be cut is left as it is.
// CHECK-LABEL: func.func @main(
// CHECK-NOT:     tensor.extract_slice
// CHECK:         %[[START:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<2x3xf32>)
// CHECK:         %[[P:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<2x10xf32>, tensor<4xf32>) outs(%[[START]] : tensor<2x3xf32>)
// CHECK:           arith.mulf
// CHECK:         %[[Q:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<2x4xf32>)
// CHECK:         tensor.extract_slice %[[Q]][0, 0] [2, 3]
// CHECK:         tensor.extract_slice %{{.*}}[0, 1] [2, 3]
// CHECK:         tensor.extract_slice %{{.*}}[0, 0] [1, 4]
// CHECK:         return %[[P]]
#a = affine_map<(i, j, k) -> (i, j + 2 * k)>
#b = affine_map<(i, j, k) -> (k)>
#c = affine_map<(i, j, k) -> (i, j)>
func.func @main(%x: tensor<2x10xf32>, %g: tensor<4xf32>) -> (tensor<2x3xf32>, tensor<2x4xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<1x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  %p = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %g : tensor<2x10xf32>, tensor<4xf32>) outs(%z : tensor<2x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x4xf32>
  %0 = tensor.extract_slice %p[0, 0] [2, 3] [1, 1] : tensor<2x4xf32> to tensor<2x3xf32>
  %q = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %g : tensor<2x10xf32>, tensor<4xf32>) outs(%z : tensor<2x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x4xf32>
  %1 = tensor.extract_slice %q[0, 0] [2, 3] [1, 1] : tensor<2x4xf32> to tensor<2x3xf32>
  %t = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %g : tensor<2x10xf32>, tensor<4xf32>) outs(%z : tensor<2x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x4xf32>
  %2 = tensor.extract_slice %t[0, 1] [2, 3] [1, 1] : tensor<2x4xf32> to tensor<2x3xf32>
  %u = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %g : tensor<2x10xf32>, tensor<4xf32>) outs(%z : tensor<2x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %o, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x4xf32>
  %3 = tensor.extract_slice %u[0, 0] [1, 4] [1, 1] : tensor<2x4xf32> to tensor<1x4xf32>
  return %0, %q, %1, %2, %3 : tensor<2x3xf32>, tensor<2x4xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<1x4xf32>
}
