// Two writers that share a fill and its empty tensor get one each, right before them.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %[[ZERO:.*]] = arith.constant
// CHECK-NEXT:    %[[E:.*]] = tensor.empty
// CHECK-NEXT:    %[[F:.*]] = linalg.generic {{.*}} ins(%[[ZERO]] : f32) outs(%[[E]]
// CHECK:         %[[A:.*]] = tensor.insert_slice %{{.*}} into %[[F]]
// CHECK-NEXT:    %[[E2:.*]] = tensor.empty
// CHECK-NEXT:    %[[F2:.*]] = linalg.generic {{.*}} ins(%[[ZERO]] : f32) outs(%[[E2]]
// CHECK:         tensor.insert_slice %{{.*}} into %[[F2]]
func.func @main(%x: tensor<2xf32>, %y: tensor<3xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %f = linalg.generic {indexing_maps = [affine_map<(i) -> ()>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%zero : f32) outs(%e : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<8xf32>
  %a = tensor.insert_slice %x into %f[1] [2] [1] : tensor<2xf32> into tensor<8xf32>
  %b = tensor.insert_slice %y into %f[1] [3] [1] : tensor<3xf32> into tensor<8xf32>
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}
