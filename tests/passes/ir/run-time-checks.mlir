// What types do not prove is checked before the operation that relies on it: sizes of operands that share a dimension, the
// size that a cast asserts, the bounds of a slice and of an index, divisors. What is equal by construction needs no check.
// CHECK-LABEL: func.func @main
// CHECK:         %[[K0:.*]] = tensor.dim %arg0, %{{.*}}
// CHECK:         cf.assert %{{.*}}, "sizes do not fit: operands that share a dimension differ in it"
// CHECK-NOT:     cf.assert
// CHECK:         linalg.generic
// CHECK:         cf.assert %{{.*}}, "sizes do not fit: dimension 0 has to be 4"
// CHECK:         tensor.cast
// CHECK:         cf.assert %{{.*}}, "a slice reaches beyond its tensor"
// CHECK:         tensor.extract_slice
// CHECK:         cf.assert %{{.*}}, "an index is out of range"
// CHECK:         tensor.extract
// CHECK:         cf.assert %{{.*}}, "an integer is divided by zero"
// CHECK:         arith.select
// CHECK:         arith.divsi
// CHECK:         arith.shli
// CHECK-NEXT:    arith.constant
// CHECK-NEXT:    arith.select
// CHECK-NOT:     cf.assert
// CHECK:         tensor.extract
// CHECK:         cf.assert %{{.*}}, "an index is out of range"
// CHECK-NEXT:    tensor.extract
func.func @main(%a: tensor<?x8xf32>, %b: tensor<?x8xf32>, %i: tensor<3xi64>, %n: i64) -> (tensor<4x8xf32>, tensor<2x8xf32>, i64, i64) {
  %c0 = arith.constant 0 : index
  %d = tensor.dim %a, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%d) : tensor<?x8xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<?x8xf32>, tensor<?x8xf32>) outs(%e : tensor<?x8xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %r = arith.addf %x, %y : f32
    linalg.yield %r : f32
  } -> tensor<?x8xf32>
  %four = tensor.cast %s : tensor<?x8xf32> to tensor<4x8xf32>
  %two = tensor.extract_slice %a[0, 0] [2, 8] [1, 1] : tensor<?x8xf32> to tensor<2x8xf32>
  %at = arith.index_cast %n : i64 to index
  %v = tensor.extract %i[%at] : tensor<3xi64>
  %q = arith.divsi %v, %n : i64
  %w = arith.shli %v, %n : i64
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %inside = tensor.extract %i[%c2] : tensor<3xi64>
  %outside = tensor.extract %i[%c3] : tensor<3xi64>
  %sum = arith.addi %w, %inside : i64
  %all = arith.addi %sum, %outside : i64
  return %four, %two, %q, %all : tensor<4x8xf32>, tensor<2x8xf32>, i64, i64
}
