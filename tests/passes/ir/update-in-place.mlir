// The first result may take the memory of the first argument: what makes it writes there. The second one is added to what
// is in its destination, which is no empty tensor.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: tensor<8xf32> {numc.updates = 0 : i64}, %[[Y:.*]]: tensor<8xf32> {numc.updates = 1 : i64})
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[Y]] : {{.*}}) outs(%[[X]] : tensor<8xf32>)
// CHECK: %[[SUMS:.*]] = linalg.fill
// CHECK: linalg.generic {{.*}} ins(%[[X]] : {{.*}}) outs(%[[SUMS]] : tensor<8xf32>)
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<8xf32> {numc.updates = 0 : i64}, %y: tensor<8xf32> {numc.updates = 1 : i64}) -> (tensor<8xf32>, tensor<8xf32>) {
  %e = tensor.empty() : tensor<8xf32>
  %new = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<8xf32>
  %sums = linalg.fill ins(%zero : f32) outs(%f : tensor<8xf32>) -> tensor<8xf32>
  %sum = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%sums : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %o, %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %new, %sum : tensor<8xf32>, tensor<8xf32>
}
