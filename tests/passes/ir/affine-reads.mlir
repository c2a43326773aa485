// A filter that is turned around is read through a map, without its indices, also where more is computed of it. What would
// be outside, depends on data, or is a part of the columns is left as it is.
// CHECK:       #[[TURNED:.*]] = affine_map<(d0, d1) -> (-d0 + 3, d1 + 1)>
// CHECK:       func.func @main(%[[X:.*]]: tensor<4x5xf32>
// CHECK:         %[[Y:.*]] = linalg.generic {indexing_maps = [#[[TURNED]], #{{.*}}], {{.*}} ins(%[[X]] : tensor<4x5xf32>)
// CHECK-NEXT:    ^bb0(%[[E:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT:      linalg.yield %[[E]]
// CHECK:         tensor.extract %[[X]]
// CHECK:         tensor.extract %[[X]]
// CHECK:         linalg.generic {indexing_maps = [#[[TURNED]], #{{.*}}], {{.*}} ins(%[[X]] : tensor<4x5xf32>) outs(%[[START:.*]] : tensor<4x4xf32>)
// CHECK-NEXT:    ^bb0(%[[E:.*]]: f32, %[[O:.*]]: f32):
// CHECK-NEXT:      arith.addf %[[E]], %[[O]] : f32
// CHECK:         tensor.extract %[[X]]
// CHECK:         return %[[Y]]
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @main(%x: tensor<4x5xf32>, %rows: tensor<4xindex>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %e = tensor.empty() : tensor<4x4xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %turned = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%filled : tensor<4x4xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %r = arith.subi %three, %i : index
    %c = arith.addi %j, %one : index
    %v = tensor.extract %x[%r, %c] : tensor<4x5xf32>
    linalg.yield %v : f32
  } -> tensor<4x4xf32>
  %outside = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<4x4xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %r = arith.subi %one, %i : index
    %v = tensor.extract %x[%r, %j] : tensor<4x5xf32>
    linalg.yield %v : f32
  } -> tensor<4x4xf32>
  %chosen = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]} ins(%rows : tensor<4xindex>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%r: index, %o: f32):
    %j = linalg.index 1 : index
    %v = tensor.extract %x[%r, %j] : tensor<4x5xf32>
    linalg.yield %v : f32
  } -> tensor<4x4xf32>
  %sum = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%filled : tensor<4x4xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %r = arith.subi %three, %i : index
    %c = arith.addi %j, %one : index
    %v = tensor.extract %x[%r, %c] : tensor<4x5xf32>
    %s = arith.addf %v, %o : f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  %part = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<4x4xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %v = tensor.extract %x[%i, %j] : tensor<4x5xf32>
    linalg.yield %v : f32
  } -> tensor<4x4xf32>
  return %turned, %outside, %chosen, %sum, %part : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
