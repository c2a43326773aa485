// A chain becomes one loop, and stays out of the contraction before it and after it.
// CHECK-LABEL: func.func @chain
// CHECK:         %[[C:.*]] = linalg.generic {{.*}} "reduction"]
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      "numc.fma"
// CHECK:         linalg.generic {{.*}} ins(%[[C]], %{{.*}} : tensor<4x8xf32>, tensor<8xf32>)
// CHECK-NEXT:    ^bb0(%[[X:.*]]: f32, %[[B:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT:      %[[S:.*]] = arith.addf %[[X]], %[[B]]
// CHECK-NEXT:      %[[R:.*]] = "numc.round"(%[[S]]) {to = "bf16"}
// CHECK-NEXT:      math.exp %[[R]]
// CHECK-NOT:     arith.addf
// CHECK:         linalg.generic {{.*}} "reduction"]
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      "numc.fma"
//
// A transposed weight is read transposed by the contraction.
// CHECK-LABEL: func.func @transposed
// CHECK:         linalg.generic {indexing_maps = [#{{.*}}, #[[T:.*]], #{{.*}}], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0, %arg1
//
// What is costly is not computed for every row it is added to, nor twice, nor inside a sum.
// CHECK-LABEL: func.func @costly
// CHECK:         math.exp
// CHECK:         linalg.generic
// CHECK:         arith.addf
// CHECK:         math.exp
// CHECK:         linalg.generic
// CHECK:         arith.addf
//
// What is cheap is: both readers subtract.
// CHECK-LABEL: func.func @cheap
// CHECK:         arith.subf
// CHECK-NEXT:    arith.mulf
// CHECK-NEXT:    arith.addf
// CHECK:         arith.subf
// CHECK-NEXT:    arith.divf
//
// A sum of products stays one addition for each product, which the kernel of that can do.
// CHECK-LABEL: func.func @sums
// CHECK:         arith.addf
// CHECK:         linalg.yield
// CHECK:         arith.addf
// CHECK:         linalg.yield
//
// A reshape between two operations moves behind the second, and away where it is undone, unless the second reads a part
// of the dimensions that were one.
// CHECK-LABEL: func.func @reshaped
// CHECK:         %[[BOTH:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%arg0, %arg1, %{{.*}}, %arg3 : tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>, tensor<8xf32>)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      math.exp
// CHECK:         tensor.expand_shape
// CHECK:         linalg.generic {{.*}} ins(%{{.*}}, %arg4 : tensor<2x3x8xf32>, tensor<2xf32>)
// CHECK:         return %[[BOTH]], %{{.*}}

// A reshaped number has no dimensions that could be one.
// CHECK-LABEL: func.func @number
// CHECK:         math.exp
// CHECK:         tensor.expand_shape
// CHECK:         arith.negf
#ij = affine_map<(i, j) -> (i, j)>
#ji = affine_map<(i, j) -> (j, i)>
#i = affine_map<(i, j) -> (i)>
#j = affine_map<(i, j) -> (j)>
#ijk = affine_map<(i, j, k) -> (i, j, k)>
#first = affine_map<(i, j, k) -> (i)>
#k = affine_map<(i, j, k) -> (k)>
#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (k, j)>
#c = affine_map<(i, j, k) -> (i, j)>
#m = affine_map<(i) -> (i)>
func.func @chain(%a: tensor<4x8xf32>, %b: tensor<8x8xf32>, %bias: tensor<8xf32>, %z: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<4x8xf32>, tensor<8x8xf32>) outs(%z : tensor<4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %r = "numc.fma"(%x, %y, %o) {fma = "fp32"} : (f32, f32, f32) -> f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#ij, #j, #ij], iterator_types = ["parallel", "parallel"]} ins(%0, %bias : tensor<4x8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %r = arith.addf %x, %y : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %2 = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%x: f32, %o: f32):
    %p = "numc.round"(%x) {to = "bf16"} : (f32) -> f32
    %r = math.exp %p : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %3 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%2, %b : tensor<4x8xf32>, tensor<8x8xf32>) outs(%z : tensor<4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %r = "numc.fma"(%x, %y, %o) {fma = "fp32"} : (f32, f32, f32) -> f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}
func.func @transposed(%a: tensor<4x8xf32>, %w: tensor<16x8xf32>, %z: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %e = tensor.empty() : tensor<8x16xf32>
  %t = linalg.generic {indexing_maps = [#ji, #ij], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<16x8xf32>) outs(%e : tensor<8x16xf32>) {
  ^bb0(%x: f32, %o: f32):
    linalg.yield %x : f32
  } -> tensor<8x16xf32>
  %0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %t : tensor<4x8xf32>, tensor<8x16xf32>) outs(%z : tensor<4x16xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %r = "numc.fma"(%x, %y, %o) {fma = "fp32"} : (f32, f32, f32) -> f32
    linalg.yield %r : f32
  } -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}
func.func @costly(%x: tensor<4x8xf32>, %v: tensor<8xf32>, %z: tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %e = tensor.empty() : tensor<4x8xf32>
  %f = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%v : tensor<8xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.exp %i : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#ij, #j, #ij], iterator_types = ["parallel", "parallel"]} ins(%x, %0 : tensor<4x8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %y: f32, %o: f32):
    %r = arith.addf %i, %y : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %2 = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = math.exp %i : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %3 = linalg.generic {indexing_maps = [#ij, #i], iterator_types = ["parallel", "reduction"]} ins(%2 : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  return %1, %3 : tensor<4x8xf32>, tensor<4xf32>
}
func.func @cheap(%x: tensor<4x8xf32>, %v: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#ij, #i, #ij], iterator_types = ["parallel", "parallel"]} ins(%x, %v : tensor<4x8xf32>, tensor<4xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %y: f32, %o: f32):
    %r = arith.subf %i, %y : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.mulf %i, %i : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %2 = linalg.generic {indexing_maps = [#ij, #i], iterator_types = ["parallel", "reduction"]} ins(%1 : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %i, %o : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  %3 = linalg.generic {indexing_maps = [#ij, #i, #ij], iterator_types = ["parallel", "parallel"]} ins(%0, %2 : tensor<4x8xf32>, tensor<4xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%i: f32, %y: f32, %o: f32):
    %r = arith.divf %i, %y : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  return %3, %2 : tensor<4x8xf32>, tensor<4xf32>
}
func.func @sums(%a: tensor<4x8xf32>, %b: tensor<8x8xf32>, %c: tensor<8x8xf32>, %d: tensor<8x8xf32>, %z: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<4x8xf32>, tensor<8x8xf32>) outs(%z : tensor<4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %r = "numc.fma"(%x, %y, %o) {fma = "fp32"} : (f32, f32, f32) -> f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %c : tensor<4x8xf32>, tensor<8x8xf32>) outs(%z : tensor<4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %r = "numc.fma"(%x, %y, %o) {fma = "fp32"} : (f32, f32, f32) -> f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %2 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %d : tensor<4x8xf32>, tensor<8x8xf32>) outs(%z : tensor<4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %r = "numc.fma"(%x, %y, %o) {fma = "fp32"} : (f32, f32, f32) -> f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %3 = linalg.generic {indexing_maps = [#ij, #ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%0, %1 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %r = arith.addf %x, %y : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %4 = linalg.generic {indexing_maps = [#ij, #ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%3, %2 : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %r = arith.addf %x, %y : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}
func.func @reshaped(%x: tensor<6x8xf32>, %y: tensor<6x8xf32>, %w: tensor<2x3x8xf32>, %v: tensor<8xf32>, %u: tensor<2xf32>) -> (tensor<6x8xf32>, tensor<2x3x8xf32>) {
  %e = tensor.empty() : tensor<6x8xf32>
  %exp = linalg.generic {indexing_maps = [#ij, #ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<6x8xf32>, tensor<6x8xf32>) outs(%e : tensor<6x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = math.exp %a : f32
    %r = arith.mulf %c, %b : f32
    linalg.yield %r : f32
  } -> tensor<6x8xf32>
  %wide = tensor.expand_shape %exp [[0, 1], [2]] output_shape [2, 3, 8] : tensor<6x8xf32> into tensor<2x3x8xf32>
  %f = tensor.empty() : tensor<2x3x8xf32>
  %sum = linalg.generic {indexing_maps = [#ijk, #ijk, #k, #ijk], iterator_types = ["parallel", "parallel", "parallel"]} ins(%wide, %w, %v : tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<8xf32>) outs(%f : tensor<2x3x8xf32>) {
  ^bb0(%a: f32, %b: f32, %n: f32, %o: f32):
    %c = arith.addf %a, %b : f32
    %r = arith.divf %c, %n : f32
    linalg.yield %r : f32
  } -> tensor<2x3x8xf32>
  %flat = tensor.collapse_shape %sum [[0, 1], [2]] : tensor<2x3x8xf32> into tensor<6x8xf32>
  %log = linalg.generic {indexing_maps = [#ij, #ij], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<6x8xf32>) outs(%e : tensor<6x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.log %a : f32
    linalg.yield %r : f32
  } -> tensor<6x8xf32>
  %apart = tensor.expand_shape %log [[0, 1], [2]] output_shape [2, 3, 8] : tensor<6x8xf32> into tensor<2x3x8xf32>
  %scaled = linalg.generic {indexing_maps = [#ijk, #first, #ijk], iterator_types = ["parallel", "parallel", "parallel"]} ins(%apart, %u : tensor<2x3x8xf32>, tensor<2xf32>) outs(%f : tensor<2x3x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<2x3x8xf32>
  return %flat, %scaled : tensor<6x8xf32>, tensor<2x3x8xf32>
}
func.func @number(%x: tensor<f32>) -> tensor<1xf32> {
  %e = tensor.empty() : tensor<f32>
  %exp = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%x : tensor<f32>) outs(%e : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  %wide = tensor.expand_shape %exp [] output_shape [1] : tensor<f32> into tensor<1xf32>
  %f = tensor.empty() : tensor<1xf32>
  %neg = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]} ins(%wide : tensor<1xf32>) outs(%f : tensor<1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<1xf32>
  return %neg : tensor<1xf32>
}
