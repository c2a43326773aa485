// The sum and the largest element of each row are one loop; a sum over columns is another.
// CHECK-LABEL: func.func @main
// CHECK:         %[[BOTH:.*]]:2 = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<9x7xf32>) outs(%{{.*}}, %{{.*}} : tensor<9xf32>, tensor<9xf64>)
// CHECK:           arith.addf
// CHECK:           arith.maximumf
// CHECK:         %[[COLUMNS:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<9x7xf32>) outs(%{{.*}} : tensor<7xf32>)
// CHECK:         return %[[BOTH]]#0, %[[BOTH]]#1, %[[COLUMNS]]
#ij = affine_map<(i, j) -> (i, j)>
#ji = affine_map<(i, j) -> (j, i)>
#i = affine_map<(i, j) -> (i)>
func.func @main(%x: tensor<9x7xf32>) -> (tensor<9xf32>, tensor<9xf64>, tensor<7xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<9xf32>
  %start = linalg.generic {indexing_maps = [affine_map<(i) -> ()>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%zero : f32) outs(%e : tensor<9xf32>) {
  ^bb0(%n: f32, %o: f32):
    linalg.yield %n : f32
  } -> tensor<9xf32>
  %sum = linalg.generic {indexing_maps = [#ij, #i], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<9x7xf32>) outs(%start : tensor<9xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<9xf32>
  %low = arith.constant 0xFFF0000000000000 : f64
  %f = tensor.empty() : tensor<9xf64>
  %from = linalg.generic {indexing_maps = [affine_map<(i) -> ()>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%low : f64) outs(%f : tensor<9xf64>) {
  ^bb0(%n: f64, %o: f64):
    linalg.yield %n : f64
  } -> tensor<9xf64>
  %max = linalg.generic {indexing_maps = [#ij, #i], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<9x7xf32>) outs(%from : tensor<9xf64>) {
  ^bb0(%a: f32, %o: f64):
    %w = arith.extf %a : f32 to f64
    %r = arith.maximumf %w, %o : f64
    linalg.yield %r : f64
  } -> tensor<9xf64>
  %g = tensor.empty() : tensor<7xf32>
  %again = linalg.generic {indexing_maps = [affine_map<(i) -> ()>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%zero : f32) outs(%g : tensor<7xf32>) {
  ^bb0(%n: f32, %o: f32):
    linalg.yield %n : f32
  } -> tensor<7xf32>
  %columns = linalg.generic {indexing_maps = [#ji, #i], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<9x7xf32>) outs(%again : tensor<7xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<7xf32>
  return %sum, %max, %columns : tensor<9xf32>, tensor<9xf64>, tensor<7xf32>
}
