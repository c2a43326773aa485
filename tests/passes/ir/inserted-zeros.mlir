// A transposed convolution by weights that a run knows: those that are not finite meet no zero between or around elements.
// CHECK-LABEL: func.func @main
// CHECK: %[[ELEMENTS:.*]] = tensor.insert_slice %{{[0-9]+}} into %{{.*}}[0, 0, 1] [1, 2, 3] [1, 1, 2]
// Weights that are not finite become 0 in the contraction.
// CHECK: %[[KEPT:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<4x2x2xf32>) outs(%{{.*}} : tensor<4x2x2xf32>)
// CHECK: arith.select
// CHECK: } -> tensor<4x2x2xf32>
// CHECK: %[[WHOLE:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[KEPT]]
// CHECK-SAME: numc.finite
// CHECK: scf.if
// CHECK: scf.yield %[[WHOLE]]
// Their products with true elements are added to its result.
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[ELEMENTS]], %arg1 {{.*}} outs(%[[WHOLE]]
// CHECK: "numc.fma"
// CHECK: arith.select
// CHECK-NOT: numc.inserted
#image = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d2 + d4)>
#weight = affine_map<(d0, d1, d2, d3, d4) -> (d1, d3, d4)>
#result = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>
func.func @main(%x: tensor<1x2x3xf32>, %w: tensor<4x2x2xf32>) -> tensor<1x4x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x2x7xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x2x7xf32>) -> tensor<1x2x7xf32>
  %i = tensor.insert_slice %x into %z[0, 0, 1] [1, 2, 3] [1, 1, 2] : tensor<1x2x3xf32> into tensor<1x2x7xf32>
  %o = tensor.empty() : tensor<1x4x6xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<1x4x6xf32>) -> tensor<1x4x6xf32>
  %y = linalg.generic {indexing_maps = [#image, #weight, #result],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%i, %w : tensor<1x2x7xf32>, tensor<4x2x2xf32>) outs(%f : tensor<1x4x6xf32>) attrs = {numc.inserted} {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %s = "numc.fma"(%a, %b, %c) {fma = "fp32"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<1x4x6xf32>
  return %y : tensor<1x4x6xf32>
}
