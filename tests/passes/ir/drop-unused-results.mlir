// The position of a maximum that nobody reads is not computed; a result that another one needs is.
// CHECK-LABEL: func.func @main
// CHECK:         linalg.generic {{.*}} outs(%{{.*}} : tensor<f32>)
// CHECK-NEXT:    ^bb0(%{{.*}}: f32, %{{.*}}: f32):
// CHECK-NOT:     arith.select
// CHECK:       func.func @needed
// CHECK:         outs(%{{.*}}, %{{.*}} : tensor<f32>, tensor<i64>)
#in = affine_map<(i) -> (i)>
#out = affine_map<(i) -> ()>
func.func @main(%x: tensor<8xf32>, %m: tensor<f32>, %p: tensor<i64>) -> tensor<f32> {
  %r:2 = linalg.generic {indexing_maps = [#in, #out, #out], iterator_types = ["reduction"]} ins(%x : tensor<8xf32>) outs(%m, %p : tensor<f32>, tensor<i64>) {
  ^bb0(%in: f32, %best: f32, %at: i64):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i64
    %c = arith.cmpf ogt, %in, %best : f32
    %b = arith.maximumf %in, %best : f32
    %k = arith.select %c, %j, %at : i64
    linalg.yield %b, %k : f32, i64
  } -> (tensor<f32>, tensor<i64>)
  return %r#0 : tensor<f32>
}
func.func @needed(%x: tensor<8xf32>, %m: tensor<f32>, %p: tensor<i64>) -> tensor<i64> {
  %r:2 = linalg.generic {indexing_maps = [#in, #out, #out], iterator_types = ["reduction"]} ins(%x : tensor<8xf32>) outs(%m, %p : tensor<f32>, tensor<i64>) {
  ^bb0(%in: f32, %best: f32, %at: i64):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i64
    %c = arith.cmpf ogt, %in, %best : f32
    %b = arith.maximumf %in, %best : f32
    %k = arith.select %c, %j, %at : i64
    linalg.yield %b, %k : f32, i64
  } -> (tensor<f32>, tensor<i64>)
  return %r#1 : tensor<i64>
}
