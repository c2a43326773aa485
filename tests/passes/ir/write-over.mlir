// A sum with a product takes the memory of the other addend where nobody reads that later. The first one does not: the
// product reads the addend itself, which is an argument, too. The second one is added to a value that is read again, and
// the third one to the second one.
// CHECK-LABEL: func.func @main(
// CHECK: numc.fma
// CHECK: %[[E:.*]] = tensor.empty() : tensor<4x4xf32>
// CHECK: %[[FIRST:.*]] = linalg.generic {{.*}} outs(%[[E]] : tensor<4x4xf32>)
// CHECK: numc.fma
// CHECK: %[[F:.*]] = tensor.empty() : tensor<4x4xf32>
// CHECK: %[[SECOND:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[FIRST]] : {{.*}}) outs(%[[F]] : tensor<4x4xf32>)
// CHECK: numc.fma
// CHECK: %[[THIRD:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %[[SECOND]] : {{.*}}) outs(%[[SECOND]] : tensor<4x4xf32>)
// CHECK: return %[[FIRST]], %[[THIRD]]
#id = affine_map<(d0, d1) -> (d0, d1)>
#a = affine_map<(d0, d1, d2) -> (d0, d2)>
#b = affine_map<(d0, d1, d2) -> (d2, d1)>
#c = affine_map<(d0, d1, d2) -> (d0, d1)>
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %t0 = tensor.empty() : tensor<4x4xf32>
  %z0 = linalg.fill ins(%zero : f32) outs(%t0 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %p0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z0 : tensor<4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = "numc.fma"(%l, %r, %o) {fma = "fp32"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  %e0 = tensor.empty() : tensor<4x4xf32>
  %first = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p0, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e0 : tensor<4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  %t1 = tensor.empty() : tensor<4x4xf32>
  %z1 = linalg.fill ins(%zero : f32) outs(%t1 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %p1 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z1 : tensor<4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = "numc.fma"(%l, %r, %o) {fma = "fp32"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  %e1 = tensor.empty() : tensor<4x4xf32>
  %second = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p1, %first : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e1 : tensor<4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  %t2 = tensor.empty() : tensor<4x4xf32>
  %z2 = linalg.fill ins(%zero : f32) outs(%t2 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %p2 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z2 : tensor<4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = "numc.fma"(%l, %r, %o) {fma = "fp32"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  %e2 = tensor.empty() : tensor<4x4xf32>
  %third = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p2, %second : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e2 : tensor<4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %s = arith.addf %l, %r : f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  return %first, %third : tensor<4x4xf32>, tensor<4x4xf32>
}
