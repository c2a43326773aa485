// The sum and the largest element of each row are one loop, which is also the sum of products that reads these elements
// and others, and comes later; a sum over columns is another loop. Nothing is moved behind what uses it.
// CHECK-LABEL: func.func @main
// CHECK:         %[[ALL:.*]]:3 = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%arg1, %arg0 : tensor<9x7xf32>, tensor<9x7xf32>) outs(%{{.*}}, %{{.*}}, %{{.*}} : tensor<9xf32>, tensor<9xf32>, tensor<9xf64>)
// CHECK:           arith.mulf
// CHECK:           arith.addf
// CHECK:           arith.addf
// CHECK:           arith.maximumf
// CHECK:         %[[COLUMNS:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<9x7xf32>) outs(%{{.*}} : tensor<7xf32>)
// CHECK:         %[[FIRST:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<9x7xf32>) outs(%{{.*}} : tensor<7xf32>)
// CHECK:         %[[LATER:.*]] = linalg.generic {{.*}} ins(%arg1, %[[FIRST]] : tensor<9x7xf32>, tensor<7xf32>) outs(%{{.*}} : tensor<7xf32>)
// CHECK:         return %[[ALL]]#1, %[[ALL]]#2, %[[ALL]]#0, %[[COLUMNS]], %[[LATER]]
#ij = affine_map<(i, j) -> (i, j)>
#ji = affine_map<(i, j) -> (j, i)>
#i = affine_map<(i, j) -> (i)>
func.func @main(%x: tensor<9x7xf32>, %y: tensor<9x7xf32>) -> (tensor<9xf32>, tensor<9xf64>, tensor<9xf32>, tensor<7xf32>, tensor<7xf32>) {
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
  %products = linalg.generic {indexing_maps = [#ij, #ij, #i], iterator_types = ["parallel", "reduction"]} ins(%y, %x : tensor<9x7xf32>, tensor<9x7xf32>) outs(%start : tensor<9xf32>) {
  ^bb0(%b: f32, %a: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %m, %o : f32
    linalg.yield %r : f32
  } -> tensor<9xf32>
  %columns = linalg.generic {indexing_maps = [#ji, #i], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<9x7xf32>) outs(%again : tensor<7xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<7xf32>
  %first = linalg.generic {indexing_maps = [#ji, #i], iterator_types = ["parallel", "reduction"]} ins(%y : tensor<9x7xf32>) outs(%again : tensor<7xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %o : f32
    linalg.yield %r : f32
  } -> tensor<7xf32>
  %later = linalg.generic {indexing_maps = [#ji, #i, #i], iterator_types = ["parallel", "reduction"]} ins(%y, %first : tensor<9x7xf32>, tensor<7xf32>) outs(%again : tensor<7xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %m, %o : f32
    linalg.yield %r : f32
  } -> tensor<7xf32>
  return %sum, %max, %products, %columns, %later : tensor<9xf32>, tensor<9xf64>, tensor<9xf32>, tensor<7xf32>, tensor<7xf32>
}
