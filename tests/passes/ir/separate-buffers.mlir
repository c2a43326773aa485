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

// Two values of a loop that share an empty tensor through a cast get one each: both are written.
// CHECK-LABEL: func.func @loop
// CHECK-DAG:     %[[E:.*]] = tensor.empty
// CHECK-DAG:     %[[A:.*]] = tensor.cast %[[E]]
// CHECK-DAG:     %[[E2:.*]] = tensor.empty
// CHECK-DAG:     %[[B:.*]] = tensor.cast %[[E2]]
// CHECK:         scf.for {{.*}} iter_args(%{{.*}} = %[[B]], %{{.*}} = %[[A]])
func.func @loop(%x: i64, %y: i64) -> (tensor<?xi64>, tensor<?xi64>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  %e = tensor.empty() : tensor<4xi64>
  %c = tensor.cast %e : tensor<4xi64> to tensor<?xi64>
  %r:2 = scf.for %i = %zero to %four step %one iter_args(%a = %c, %b = %c) -> (tensor<?xi64>, tensor<?xi64>) {
    %p = tensor.insert %x into %a[%i] : tensor<?xi64>
    %q = tensor.insert %y into %b[%i] : tensor<?xi64>
    scf.yield %p, %q : tensor<?xi64>, tensor<?xi64>
  }
  return %r#0, %r#1 : tensor<?xi64>, tensor<?xi64>
}
