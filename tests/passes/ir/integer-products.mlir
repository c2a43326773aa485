// A product of bytes less a zero point, 600 of them, becomes two float32 contractions whose sums are at most 2^24.
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<2x600xi32>) outs({{.*}} : tensor<2x600xf32>)
// CHECK-NEXT:    bb0
// CHECK-NEXT:      arith.sitofp
// CHECK:         %[[B:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<600x3xi8>) outs({{.*}} : tensor<600x3xf32>)
// CHECK:           arith.extui
// CHECK:           arith.subi
// CHECK:           arith.sitofp
// CHECK:         %[[A1:.*]] = tensor.extract_slice %[[A]][0, 0] [2, 300] [1, 1]
// CHECK:         %[[B1:.*]] = tensor.extract_slice %[[B]][0, 0] [300, 3] [1, 1]
// CHECK:         %[[FIRST:.*]] = linalg.generic {{.*}} ins(%[[A1]], %[[B1]] : tensor<2x300xf32>, tensor<300x3xf32>)
// CHECK:           "numc.fma"({{.*}}) {fma = "fp32"}
// CHECK:         tensor.extract_slice %[[A]][0, 300] [2, 300] [1, 1]
// CHECK:         %[[SECOND:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]
// CHECK:         linalg.generic {{.*}} ins(%[[FIRST]], %[[SECOND]], %arg2 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xi64>)
// CHECK-COUNT-2:   arith.fptosi
// CHECK-NOT:       arith.muli
#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (k, j)>
#s = affine_map<(i, j, k) -> ()>
#c = affine_map<(i, j, k) -> (i, j)>
#id = affine_map<(i, j) -> (i, j)>
func.func @main(%x: tensor<2x600xi8>, %w: tensor<600x3xi8>, %start: tensor<2x3xi64>) -> tensor<2x3xi64> {
  %point = arith.constant 128 : i32
  %e = tensor.empty() : tensor<2x600xi32>
  %wide = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2x600xi8>) outs(%e : tensor<2x600xi32>) {
  ^bb0(%u: i8, %o: i32):
    %n = arith.extsi %u : i8 to i32
    %m = arith.subi %n, %point : i32
    linalg.yield %m : i32
  } -> tensor<2x600xi32>
  %p = linalg.generic {indexing_maps = [#a, #b, #s, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%wide, %w, %point : tensor<2x600xi32>, tensor<600x3xi8>, i32) outs(%start : tensor<2x3xi64>) {
  ^bb0(%u: i32, %v: i8, %z: i32, %o: i64):
    %f = arith.extui %v : i8 to i32
    %g = arith.subi %f, %z : i32
    %h = arith.extsi %u : i32 to i64
    %i = arith.extsi %g : i32 to i64
    %j = arith.muli %h, %i : i64
    %k = arith.addi %o, %j : i64
    linalg.yield %k : i64
  } -> tensor<2x3xi64>
  return %p : tensor<2x3xi64>
}
