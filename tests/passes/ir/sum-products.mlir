// A sum of three products becomes one whose steps are the chunks: the operands lie side by side, the total starts at -0.
// Two products whose operands are larger than their result stay, and so does a sum with a product of another depth.
// CHECK-LABEL: func.func @main
// CHECK:         %[[A1:.*]] = tensor.insert_slice %arg0 into %{{.*}}[0, 0, 0] [1, 2, 8] [1, 1, 1] : tensor<2x8xf32> into tensor<3x2x8xf32>
// CHECK-NEXT:    %[[A2:.*]] = tensor.insert_slice %arg1 into %[[A1]][1, 0, 0]
// CHECK-NEXT:    %[[A:.*]] = tensor.insert_slice %arg2 into %[[A2]][2, 0, 0]
// CHECK:         %[[B1:.*]] = tensor.insert_slice %arg3 into %{{.*}}[0, 0, 0]
// CHECK-NEXT:    %[[B2:.*]] = tensor.insert_slice %arg4 into %[[B1]][1, 0, 0]
// CHECK-NEXT:    %[[B:.*]] = tensor.insert_slice %arg5 into %[[B2]][2, 0, 0]
// CHECK:         %[[MINUS:.*]] = arith.constant -0.000000e+00 : f32
// CHECK:         linalg.yield %[[MINUS]]
// CHECK:         %[[SUM:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%[[A]], %[[B]] : tensor<3x2x8xf32>, tensor<3x2x8xf32>)
// CHECK:         fma = "fma(a=bf16,acc=bf16,chunk=2,total=fp32)"
// CHECK-NOT:     chunk
// CHECK:         %[[ADDED:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<3x3xf32>, tensor<3x3xf32>)
// CHECK:         %[[MIXED:.*]] = linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<8x8xf32>, tensor<8x8xf32>)
// CHECK:         return %[[SUM]], %[[ADDED]], %[[MIXED]]
#a = affine_map<(i, j, k) -> (k, i)>
#b = affine_map<(i, j, k) -> (k, j)>
#c = affine_map<(i, j, k) -> (i, j)>
#id = affine_map<(i, j) -> (i, j)>
func.func @main(%x1: tensor<2x8xf32>, %x2: tensor<2x8xf32>, %x3: tensor<2x8xf32>,
                %y1: tensor<2x8xf32>, %y2: tensor<2x8xf32>, %y3: tensor<2x8xf32>,
                %u: tensor<2x3xf32>, %v: tensor<2x3xf32>, %w: tensor<3x8xf32>)
    -> (tensor<8x8xf32>, tensor<3x3xf32>, tensor<8x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8x8xf32>) -> tensor<8x8xf32>
  %e3 = tensor.empty() : tensor<3x3xf32>
  %f3 = linalg.fill ins(%zero : f32) outs(%e3 : tensor<3x3xf32>) -> tensor<3x3xf32>
  %p1 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x1, %y1 : tensor<2x8xf32>, tensor<2x8xf32>) outs(%f : tensor<8x8xf32>) {
  ^bb0(%m: f32, %n: f32, %o: f32):
    %s = "numc.fma"(%m, %n, %o) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  %p2 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x2, %y2 : tensor<2x8xf32>, tensor<2x8xf32>) outs(%f : tensor<8x8xf32>) {
  ^bb0(%m: f32, %n: f32, %o: f32):
    %s = "numc.fma"(%m, %n, %o) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  %s1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%p1, %p2 : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%m: f32, %n: f32, %o: f32):
    %s = arith.addf %m, %n : f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  %p3 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x3, %y3 : tensor<2x8xf32>, tensor<2x8xf32>) outs(%f : tensor<8x8xf32>) {
  ^bb0(%m: f32, %n: f32, %o: f32):
    %s = "numc.fma"(%m, %n, %o) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  %s2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%p3, %s1 : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%m: f32, %n: f32, %o: f32):
    %s = arith.addf %m, %n : f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  %q1 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%u, %v : tensor<2x3xf32>, tensor<2x3xf32>) outs(%f3 : tensor<3x3xf32>) {
  ^bb0(%m: f32, %n: f32, %o: f32):
    %s = "numc.fma"(%m, %n, %o) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<3x3xf32>
  %q2 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v, %u : tensor<2x3xf32>, tensor<2x3xf32>) outs(%f3 : tensor<3x3xf32>) {
  ^bb0(%m: f32, %n: f32, %o: f32):
    %s = "numc.fma"(%m, %n, %o) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<3x3xf32>
  %s3 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%q1, %q2 : tensor<3x3xf32>, tensor<3x3xf32>) outs(%e3 : tensor<3x3xf32>) {
  ^bb0(%m: f32, %n: f32, %o: f32):
    %s = arith.addf %m, %n : f32
    linalg.yield %s : f32
  } -> tensor<3x3xf32>
  %r1 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x1, %y2 : tensor<2x8xf32>, tensor<2x8xf32>) outs(%f : tensor<8x8xf32>) {
  ^bb0(%m: f32, %n: f32, %o: f32):
    %s = "numc.fma"(%m, %n, %o) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  %r2 = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%w, %w : tensor<3x8xf32>, tensor<3x8xf32>) outs(%f : tensor<8x8xf32>) {
  ^bb0(%m: f32, %n: f32, %o: f32):
    %s = "numc.fma"(%m, %n, %o) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  %s4 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%r1, %r2 : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%m: f32, %n: f32, %o: f32):
    %s = arith.addf %m, %n : f32
    linalg.yield %s : f32
  } -> tensor<8x8xf32>
  return %s2, %s3, %s4 : tensor<8x8xf32>, tensor<3x3xf32>, tensor<8x8xf32>
}
