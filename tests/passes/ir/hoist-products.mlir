// What each step of the loop multiplies with %w is one product before the loop. That with the state of the loop stays,
// as does one whose random bits belong to its step.
// CHECK-LABEL: func.func @main
// CHECK:         %[[ALL:.*]] = linalg.generic {{.*}}["parallel", "parallel", "parallel", "reduction"]{{.*}} ins(%arg0, %arg1 : tensor<6x?x16xf32>, tensor<8x16xf32>) outs({{.*}} : tensor<6x?x8xf32>)
// CHECK:         scf.for %[[STEP:.*]] = %{{.*}} iter_args(%[[STATE:.*]] = %{{.*}})
// CHECK:           %[[SLICE:.*]] = tensor.extract_slice %arg0[%[[STEP]], 0, 0] [1, %{{.*}}, 16]
// CHECK:           %[[X:.*]] = tensor.collapse_shape %[[SLICE]]
// CHECK-NOT:       ins(%[[X]], %arg1
// CHECK:           %[[PART:.*]] = tensor.extract_slice %[[ALL]][%[[STEP]], 0, 0] [1, %{{.*}}, 8] [1, 1, 1] : tensor<6x?x8xf32> to tensor<?x8xf32>
// CHECK:           %[[OWN:.*]] = linalg.generic {{.*}} ins(%[[STATE]], %arg2 : tensor<?x8xf32>, tensor<8x8xf32>)
// CHECK:           %[[DRAWN:.*]] = linalg.generic {{.*}} ins(%[[X]], %arg1 : tensor<?x16xf32>, tensor<8x16xf32>)
// CHECK:           linalg.generic {{.*}} ins(%[[PART]], %[[OWN]], %[[DRAWN]] :
#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (j, k)>
#c = affine_map<(i, j, k) -> (i, j)>
#id = affine_map<(i, j) -> (i, j)>
func.func @main(%x: tensor<6x?x16xf32>, %w: tensor<8x16xf32>, %r: tensor<8x8xf32>, %h: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c6 = arith.constant 6 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c1 : tensor<6x?x16xf32>
  %last = scf.for %t = %c0 to %c6 step %c1 iter_args(%s = %h) -> (tensor<?x8xf32>) {
    %slice = tensor.extract_slice %x[%t, 0, 0] [1, %n, 16] [1, 1, 1] : tensor<6x?x16xf32> to tensor<1x?x16xf32>
    %xt = tensor.collapse_shape %slice [[0, 1], [2]] : tensor<1x?x16xf32> into tensor<?x16xf32>
    %e = tensor.empty(%n) : tensor<?x8xf32>
    %f = linalg.generic {indexing_maps = [affine_map<(i, j) -> ()>, #id], iterator_types = ["parallel", "parallel"]} ins(%zero : f32) outs(%e : tensor<?x8xf32>) {
    ^bb0(%u: f32, %o: f32):
      linalg.yield %u : f32
    } -> tensor<?x8xf32>
    %p = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%xt, %w : tensor<?x16xf32>, tensor<8x16xf32>) outs(%f : tensor<?x8xf32>) {
    ^bb0(%u: f32, %v: f32, %o: f32):
      %y = "numc.fma"(%u, %v, %o) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
      linalg.yield %y : f32
    } -> tensor<?x8xf32>
    %q = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%s, %r : tensor<?x8xf32>, tensor<8x8xf32>) outs(%f : tensor<?x8xf32>) {
    ^bb0(%u: f32, %v: f32, %o: f32):
      %y = "numc.fma"(%u, %v, %o) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
      linalg.yield %y : f32
    } -> tensor<?x8xf32>
    %d = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%xt, %w : tensor<?x16xf32>, tensor<8x16xf32>) outs(%f : tensor<?x8xf32>) {
    ^bb0(%u: f32, %v: f32, %o: f32):
      %y = "numc.fma"(%u, %v, %o) {fma = "fma(a=bf16,b=bf16,acc=bf16:sr8)"} : (f32, f32, f32) -> f32
      linalg.yield %y : f32
    } -> tensor<?x8xf32>
    %sum = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %q, %d : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) outs(%e : tensor<?x8xf32>) {
    ^bb0(%u: f32, %v: f32, %z: f32, %o: f32):
      %y = arith.addf %u, %v : f32
      %yy = arith.addf %y, %z : f32
      linalg.yield %yy : f32
    } -> tensor<?x8xf32>
    scf.yield %sum : tensor<?x8xf32>
  }
  return %last : tensor<?x8xf32>
}
