// The copy of a product in another order goes away: the product is written in that order, from accumulators in that order.
// One that draws random bits is left as it is, because they are drawn by the places of its results, and so is one whose
// accumulators begin with values.
// CHECK-LABEL: func.func @main(
// CHECK:         linalg.generic {{.*}} outs(%{{.*}} : tensor<6x5x4xf32>)
// CHECK:         %[[P:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #{{.*}}, #[[TO:.*]]], iterator_types = {{.*}} outs(%{{.*}} : tensor<6x5x4xf32>)
// CHECK:           numc.fma
// CHECK:         fp16:sr4
// CHECK:         tensor<4x5x6xf32>
// CHECK:         linalg.generic {{.*}} outs(%{{.*}} : tensor<6x5x4xf32>)
// CHECK:         fma = "fp32"
// CHECK:         tensor<4x5x6xf32>
// CHECK:         linalg.generic {{.*}} outs(%{{.*}} : tensor<6x5x4xf32>)
// CHECK:         return %[[P]]
#a = affine_map<(i, j, l, k) -> (i, j, k)>
#b = affine_map<(i, j, l, k) -> (l, k)>
#c = affine_map<(i, j, l, k) -> (i, j, l)>
#id = affine_map<(i, j, l) -> (i, j, l)>
#turned = affine_map<(i, j, l) -> (l, j, i)>
func.func @main(%x: tensor<4x5x3xf32>, %w: tensor<6x3xf32>, %y: tensor<4x5x6xf32>) -> (tensor<6x5x4xf32>, tensor<6x5x4xf32>, tensor<6x5x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x5x6xf32>
  %t = tensor.empty() : tensor<6x5x4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x5x6xf32>) -> tensor<4x5x6xf32>
  %p = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x5x3xf32>, tensor<6x3xf32>) outs(%z : tensor<4x5x6xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = "numc.fma"(%l, %r, %o) {fma = "fp32"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<4x5x6xf32>
  %0 = linalg.generic {indexing_maps = [#id, #turned], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : tensor<4x5x6xf32>) outs(%t : tensor<6x5x4xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<6x5x4xf32>
  %q = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x5x3xf32>, tensor<6x3xf32>) outs(%z : tensor<4x5x6xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = "numc.fma"(%l, %r, %o) {fma = "fma(a=fp16,b=fp16,acc=fp16:sr4)", number = 0 : i64} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<4x5x6xf32>
  %1 = linalg.generic {indexing_maps = [#id, #turned], iterator_types = ["parallel", "parallel", "parallel"]} ins(%q : tensor<4x5x6xf32>) outs(%t : tensor<6x5x4xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<6x5x4xf32>
  %u = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x5x3xf32>, tensor<6x3xf32>) outs(%y : tensor<4x5x6xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = "numc.fma"(%l, %r, %o) {fma = "fp32"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<4x5x6xf32>
  %2 = linalg.generic {indexing_maps = [#id, #turned], iterator_types = ["parallel", "parallel", "parallel"]} ins(%u : tensor<4x5x6xf32>) outs(%t : tensor<6x5x4xf32>) {
  ^bb0(%v: f32, %o: f32):
    linalg.yield %v : f32
  } -> tensor<6x5x4xf32>
  return %0, %1, %2 : tensor<6x5x4xf32>, tensor<6x5x4xf32>, tensor<6x5x4xf32>
}
