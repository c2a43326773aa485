// A maximum over 3 x 3 elements, windows two columns apart and rows two apart, becomes one over three rows and one over
// three columns. Where minima do not overlap, and where a maximum begins with a number, all elements are taken at once.
// A sum of many elements is left. Where an image is padded with a number that changes no maximum, only rows of windows
// have the columns of the border: the first and the last row of windows have two rows of elements, others have three.
// CHECK-LABEL: func.func @main
// CHECK-DAG:     %[[A:.*]] = tensor.extract_slice %arg0[0, 0] [5, 8] [1, 1] : tensor<9x8xf32> to tensor<5x8xf32>
// CHECK-DAG:     %[[B:.*]] = tensor.extract_slice %arg0[2, 0] [5, 8] [1, 1] : tensor<9x8xf32> to tensor<5x8xf32>
// CHECK-DAG:     %[[C:.*]] = tensor.extract_slice %arg0[4, 0] [5, 8] [1, 1] : tensor<9x8xf32> to tensor<5x8xf32>
// CHECK:         %[[COLUMNS:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%[[A]], %[[B]], %[[C]] : tensor<5x8xf32>, tensor<5x8xf32>, tensor<5x8xf32>)
// CHECK-COUNT-2:   arith.maximumf
// CHECK:         %[[L:.*]] = tensor.extract_slice %[[COLUMNS]][0, 0] [5, 3] [1, 2] : tensor<5x8xf32> to tensor<5x3xf32>
// CHECK:         %[[M:.*]] = tensor.extract_slice %[[COLUMNS]][0, 1] [5, 3] [1, 2] : tensor<5x8xf32> to tensor<5x3xf32>
// CHECK:         %[[R:.*]] = tensor.extract_slice %[[COLUMNS]][0, 2] [5, 3] [1, 2] : tensor<5x8xf32> to tensor<5x3xf32>
// CHECK:         %[[MOST:.*]] = linalg.generic {{.*}} ins(%[[L]], %[[M]], %[[R]] : tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>)
// CHECK:         tensor.extract_slice %arg0[0, 0] [4, 4] [2, 2]
// CHECK:         tensor.extract_slice %arg0[0, 1] [4, 4] [2, 2]
// CHECK:         tensor.extract_slice %arg0[1, 0] [4, 4] [2, 2]
// CHECK:         tensor.extract_slice %arg0[1, 1] [4, 4] [2, 2]
// CHECK:         %[[LEAST:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]}
// CHECK-COUNT-3:   arith.minimumf
// CHECK:         %[[ABOVE:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%{{.*}}, %{{.*}} : tensor<5x3xf32>
// CHECK:           %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK:           arith.maximumf %[[ZERO]], %{{.*}} : f32
// CHECK-COUNT-8:   arith.maximumf
// CHECK:         %[[LARGE:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
// CHECK:         %[[ROWS:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<5x10xf32>)
// CHECK:         tensor.extract_slice %arg0[0, 0] [1, 8] [2, 1]
// CHECK:         tensor.extract_slice %arg0[1, 0] [1, 8] [2, 1]
// CHECK:         %[[FIRST:.*]] = linalg.generic
// CHECK:           arith.maximumf
// CHECK-NOT:       arith.maximumf
// CHECK:         %[[BEGUN:.*]] = tensor.insert_slice %[[FIRST]] into %[[ROWS]][0, 1] [1, 8] [1, 1]
// CHECK:         tensor.extract_slice %arg0[1, 0] [3, 8] [2, 1]
// CHECK:         tensor.extract_slice %arg0[2, 0] [3, 8] [2, 1]
// CHECK:         tensor.extract_slice %arg0[3, 0] [3, 8] [2, 1]
// CHECK:         %[[OTHERS:.*]] = linalg.generic
// CHECK-COUNT-2:   arith.maximumf
// CHECK:         %[[GOING:.*]] = tensor.insert_slice %[[OTHERS]] into %[[BEGUN]][1, 1] [3, 8] [1, 1]
// CHECK:         tensor.extract_slice %arg0[7, 0] [1, 8] [2, 1]
// CHECK:         tensor.extract_slice %arg0[8, 0] [1, 8] [2, 1]
// CHECK:         %[[LAST:.*]] = linalg.generic
// CHECK:         %[[DONE:.*]] = tensor.insert_slice %[[LAST]] into %[[GOING]][4, 1] [1, 8] [1, 1]
// CHECK:         tensor.extract_slice %[[DONE]][0, 0] [5, 4] [1, 2]
// CHECK:         tensor.extract_slice %[[DONE]][0, 1] [5, 4] [1, 2]
// CHECK:         tensor.extract_slice %[[DONE]][0, 2] [5, 4] [1, 2]
// CHECK:         %[[INSIDE:.*]] = linalg.generic
// CHECK:         return %[[MOST]], %[[LEAST]], %[[ABOVE]], %[[LARGE]], %[[INSIDE]]
#all = affine_map<(i, j) -> (i, j)>
#number = affine_map<(i, j) -> ()>
#dilated = affine_map<(i, j, u, v) -> (i + 2 * u, 2 * j + v)>
#apart = affine_map<(i, j, u, v) -> (2 * i + u, 2 * j + v)>
#near = affine_map<(i, j, u, v) -> (i + u, j + v)>
#window = affine_map<(i, j, u, v) -> (u, v)>
#out = affine_map<(i, j, u, v) -> (i, j)>
func.func @main(%x: tensor<9x8xf32>) -> (tensor<5x3xf32>, tensor<4x4xf32>, tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x4xf32>) {
  %low = arith.constant 0xFF800000 : f32
  %high = arith.constant 0x7F800000 : f32
  %zero = arith.constant 0.0 : f32
  %w = tensor.empty() : tensor<3x3xf32>
  %v = tensor.empty() : tensor<2x2xf32>
  %e = tensor.empty() : tensor<5x3xf32>
  %f = tensor.empty() : tensor<4x4xf32>
  %lows = linalg.generic {indexing_maps = [#number, #all], iterator_types = ["parallel", "parallel"]} ins(%low : f32) outs(%e : tensor<5x3xf32>) {
  ^bb0(%n: f32, %o: f32):
    linalg.yield %n : f32
  } -> tensor<5x3xf32>
  %most = linalg.generic {indexing_maps = [#dilated, #window, #out], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<9x8xf32>, tensor<3x3xf32>) outs(%lows : tensor<5x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.maximumf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<5x3xf32>
  %highs = linalg.generic {indexing_maps = [#number, #all], iterator_types = ["parallel", "parallel"]} ins(%high : f32) outs(%f : tensor<4x4xf32>) {
  ^bb0(%n: f32, %o: f32):
    linalg.yield %n : f32
  } -> tensor<4x4xf32>
  %least = linalg.generic {indexing_maps = [#apart, #window, #out], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x, %v : tensor<9x8xf32>, tensor<2x2xf32>) outs(%highs : tensor<4x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.minimumf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<4x4xf32>
  %zeros = linalg.generic {indexing_maps = [#number, #all], iterator_types = ["parallel", "parallel"]} ins(%zero : f32) outs(%e : tensor<5x3xf32>) {
  ^bb0(%n: f32, %o: f32):
    linalg.yield %n : f32
  } -> tensor<5x3xf32>
  %above = linalg.generic {indexing_maps = [#dilated, #window, #out], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x, %w : tensor<9x8xf32>, tensor<3x3xf32>) outs(%zeros : tensor<5x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.maximumf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<5x3xf32>
  %u = tensor.empty() : tensor<5x4xf32>
  %large = linalg.generic {indexing_maps = [#near, #window, #out], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x, %u : tensor<9x8xf32>, tensor<5x4xf32>) outs(%zeros : tensor<5x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<5x3xf32>
  %p = tensor.empty() : tensor<11x10xf32>
  %border = linalg.generic {indexing_maps = [#number, #all], iterator_types = ["parallel", "parallel"]} ins(%low : f32) outs(%p : tensor<11x10xf32>) {
  ^bb0(%n: f32, %o: f32):
    linalg.yield %n : f32
  } -> tensor<11x10xf32>
  %padded = tensor.insert_slice %x into %border[1, 1] [9, 8] [1, 1] : tensor<9x8xf32> into tensor<11x10xf32>
  %begin = linalg.generic {indexing_maps = [#number, #all], iterator_types = ["parallel", "parallel"]} ins(%low : f32) outs(%u : tensor<5x4xf32>) {
  ^bb0(%n: f32, %o: f32):
    linalg.yield %n : f32
  } -> tensor<5x4xf32>
  %inside = linalg.generic {indexing_maps = [#apart, #window, #out], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%padded, %w : tensor<11x10xf32>, tensor<3x3xf32>) outs(%begin : tensor<5x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.maximumf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<5x4xf32>
  return %most, %least, %above, %large, %inside : tensor<5x3xf32>, tensor<4x4xf32>, tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x4xf32>
}
