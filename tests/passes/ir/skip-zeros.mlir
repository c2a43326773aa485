// A transposed convolution in one dimension: stride 2, four taps, one zero before the first element and two behind the
// last. Outputs of each parity are a contraction with two of the taps, of x with no zeros between its elements; the
// whole is computed if a weight or a result is not as it has to be, or if somebody watches.
// CHECK:         func.func private @numc_watched() -> i32
// CHECK-LABEL: func.func @main(%arg0: tensor<2x3x5xf32>, %arg1: tensor<4x3x4xf32>)
// CHECK:         %[[X:.*]] = tensor.insert_slice %arg0 into %{{.*}}[0, 0, 0] [2, 3, 5] [1, 1, 1] : tensor<2x3x5xf32> into tensor<2x3x6xf32>
// CHECK:         bufferization.alloc_tensor() : tensor<2x4x5xf32>
// CHECK:         %[[X0:.*]] = tensor.extract_slice %[[X]][0, 0, 0] [2, 3, 6] [1, 1, 1]
// CHECK:         %[[W0:.*]] = tensor.extract_slice %arg1[0, 0, 1] [4, 3, 2] [1, 1, 2]
// CHECK:         %[[EVEN:.*]] = linalg.generic {{.*}} ins(%[[X0]], %[[W0]] : {{.*}}) outs({{.*}} : tensor<2x4x5xf32>) attrs = {numc.phase}
// CHECK:         %[[X1:.*]] = tensor.extract_slice %[[X]][0, 0, 0] [2, 3, 5] [1, 1, 1]
// CHECK:         %[[W1:.*]] = tensor.extract_slice %arg1[0, 0, 0] [4, 3, 2] [1, 1, 2]
// CHECK:         %[[ODD:.*]] = linalg.generic {{.*}} ins(%[[X1]], %[[W1]] : {{.*}}) outs({{.*}} : tensor<2x4x4xf32>) attrs = {numc.phase}
// CHECK:         arith.maximumf
// CHECK:         %[[FINITE:.*]] = arith.cmpf ole
// CHECK:         arith.constant -2147483648
// CHECK:         arith.constant -2147483648
// CHECK:         %[[WATCHED:.*]] = call @numc_watched()
// CHECK:         %[[Y:.*]] = scf.if
// CHECK:           tensor.insert_slice %[[EVEN]] into %{{.*}}[0, 0, 0] [2, 4, 5] [1, 1, 2]
// CHECK:           tensor.insert_slice %[[ODD]] into %{{.*}}[0, 0, 1] [2, 4, 4] [1, 1, 2]
// CHECK:         else
// CHECK:           %[[Z:.*]] = tensor.insert_slice %[[X]] into %{{.*}}[0, 0, 1] [2, 3, 6] [1, 1, 2] : tensor<2x3x6xf32> into tensor<2x3x12xf32>
// CHECK:           linalg.generic {{.*}} ins(%[[Z]], %arg1 : {{.*}}) {{.*}} attrs = {numc.by_phases}
// CHECK:         return %[[Y]]
func.func @main(%x: tensor<2x3x5xf32>, %w: tensor<4x3x4xf32>) -> tensor<2x4x9xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x3x12xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x12xf32>) -> tensor<2x3x12xf32>
  %i = tensor.insert_slice %x into %z[0, 0, 1] [2, 3, 5] [1, 1, 2] : tensor<2x3x5xf32> into tensor<2x3x12xf32>
  %o = tensor.empty() : tensor<2x4x9xf32>
  %f = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> ()>, affine_map<(a, b, c) -> (a, b, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%zero : f32) outs(%o : tensor<2x4x9xf32>) {
  ^bb0(%u: f32, %v: f32):
    linalg.yield %u : f32
  } -> tensor<2x4x9xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, f, p, c, k) -> (n, c, p + k)>, affine_map<(n, f, p, c, k) -> (f, c, k)>, affine_map<(n, f, p, c, k) -> (n, f, p)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%i, %w : tensor<2x3x12xf32>, tensor<4x3x4xf32>) outs(%f : tensor<2x4x9xf32>) {
  ^bb0(%u: f32, %v: f32, %s: f32):
    %t = "numc.fma"(%u, %v, %s) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
    linalg.yield %t : f32
  } -> tensor<2x4x9xf32>
  return %y : tensor<2x4x9xf32>
}
