// The row and its check depend on one loop: they are computed before, into 32 bits. The column is a loop itself.
// What a loop without a lookup computes of one loop stays where it is.
// CHECK-LABEL: func.func @main
// CHECK:         %[[ROWS:.*]] = linalg.generic {{.*}} iterator_types = ["parallel"]} ins(%arg1 : tensor<5xi64>) outs(%{{.*}} : tensor<5xi32>)
// CHECK:           cf.assert
// CHECK:           arith.index_cast %{{.*}} : index to i32
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%arg1, %[[ROWS]] : tensor<5xi64>, tensor<5xi32>)
// CHECK-NOT:       cf.assert
// CHECK:           tensor.extract %arg0[%{{.*}}, %{{.*}}]
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%arg1 : tensor<5xi64>)
// CHECK:           arith.sitofp
// One row for all elements is a table of one element.
// CHECK:         %[[ROW:.*]] = linalg.generic {{.*}} iterator_types = []} ins(%arg2 : tensor<1xi64>) outs(%{{.*}} : tensor<i32>)
// CHECK:           cf.assert
// CHECK:         linalg.generic {{.*}} ins(%arg2, %[[ROW]] : tensor<1xi64>, tensor<i32>)
// CHECK-NOT:       cf.assert
// CHECK:           tensor.extract %arg0[%{{.*}}, %{{.*}}]
#i = affine_map<(i, j) -> (i)>
#ij = affine_map<(i, j) -> (i, j)>
func.func @main(%x: tensor<9x7xf32>, %rows: tensor<5xi64>, %one: tensor<1xi64>) -> (tensor<5x7xf32>, tensor<5x7xf32>, tensor<1x7xf32>) {
  %nine = arith.constant 9 : index
  %e = tensor.empty() : tensor<5x7xf32>
  %r = linalg.generic {indexing_maps = [#i, #ij], iterator_types = ["parallel", "parallel"]} ins(%rows : tensor<5xi64>) outs(%e : tensor<5x7xf32>) {
  ^bb0(%n: i64, %o: f32):
    %row = arith.index_cast %n : i64 to index
    %column = linalg.index 1 : index
    %inside = arith.cmpi ult, %row, %nine : index
    cf.assert %inside, "an index is out of range"
    %element = tensor.extract %x[%row, %column] : tensor<9x7xf32>
    linalg.yield %element : f32
  } -> tensor<5x7xf32>
  %s = linalg.generic {indexing_maps = [#i, #ij], iterator_types = ["parallel", "parallel"]} ins(%rows : tensor<5xi64>) outs(%e : tensor<5x7xf32>) {
  ^bb0(%n: i64, %o: f32):
    %number = arith.sitofp %n : i64 to f32
    linalg.yield %number : f32
  } -> tensor<5x7xf32>
  %f = tensor.empty() : tensor<1x7xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(i, j) -> (0)>, #ij], iterator_types = ["parallel", "parallel"]} ins(%one : tensor<1xi64>) outs(%f : tensor<1x7xf32>) {
  ^bb0(%n: i64, %o: f32):
    %row = arith.index_cast %n : i64 to index
    %column = linalg.index 1 : index
    %inside = arith.cmpi ult, %row, %nine : index
    cf.assert %inside, "an index is out of range"
    %element = tensor.extract %x[%row, %column] : tensor<9x7xf32>
    linalg.yield %element : f32
  } -> tensor<1x7xf32>
  return %r, %s, %t : tensor<5x7xf32>, tensor<5x7xf32>, tensor<1x7xf32>
}
