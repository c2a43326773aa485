// A product of bytes, where each has an own column: A less its least value, -256, has no sign, and B, a weight, is summed.
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.*]] = linalg.generic {{.*}} ins(%{{.*}} : tensor<2x600xi32>) outs({{.*}} : tensor<2x600xf32>)
// CHECK-NEXT:    bb0
// CHECK-NEXT:      arith.constant -256
// CHECK-NEXT:      arith.subi
// CHECK-NEXT:      arith.sitofp
// CHECK:         %[[B:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<600x3xi8>) outs({{.*}} : tensor<600x3xf32>)
// CHECK:           arith.extui
// CHECK:           arith.subi
// CHECK:           arith.sitofp
// CHECK:         %[[P:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[B]] : tensor<2x600xf32>, tensor<600x3xf32>)
// CHECK:           "numc.fma"({{.*}}) {fma = "bytes"}
// CHECK:         %[[S:.*]] = linalg.generic {{.*}}["reduction", "parallel"]} ins(%[[B]] : tensor<600x3xf32>)
// CHECK:           arith.fptosi
// CHECK:           arith.constant -256
// CHECK:           arith.muli
// CHECK:           arith.addi
// CHECK:         linalg.generic {{.*}} ins(%[[P]], %[[S]], %arg2 : tensor<2x3xf32>, tensor<3xi32>, tensor<2x3xi64>)
// CHECK:           arith.bitcast
// CHECK-NEXT:      arith.addi
// CHECK-NEXT:      arith.extsi
// Of A times itself, transposed, both have 9 bits.
// CHECK:         linalg.generic {{.*}} tensor<2x600xf32>, tensor<2x600xf32>) outs({{.*}} : tensor<2x2xf32>)
// CHECK:           "numc.fma"({{.*}}) {fma = "integers"}
// A sum without columns of its own is of float32 numbers, in two parts whose sums are at most 2^24.
// CHECK:         %[[V:.*]] = linalg.generic {{.*}} ins(%arg3 : tensor<600xi8>) outs({{.*}} : tensor<600xf32>)
// CHECK:         %[[W1:.*]] = tensor.extract_slice %{{.*}}[0, 0] [300, 3] [1, 1]
// CHECK:         %[[V1:.*]] = tensor.extract_slice %[[V]][0] [300] [1]
// CHECK:         %[[FIRST:.*]] = linalg.generic {{.*}} ins(%[[W1]], %[[V1]] : tensor<300x3xf32>, tensor<300xf32>)
// CHECK:           "numc.fma"({{.*}}) {fma = "fp32"}
// CHECK:         tensor.extract_slice %[[V]][300] [300] [1]
// CHECK:         %[[SECOND:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]
// CHECK:         linalg.generic {{.*}} ins(%[[FIRST]], %[[SECOND]], {{.*}} : tensor<3xf32>, tensor<3xf32>, tensor<3xi32>)
// CHECK-COUNT-2:   arith.fptosi
// CHECK-NOT:       arith.muli
#a = affine_map<(i, j, k) -> (i, k)>
#b = affine_map<(i, j, k) -> (k, j)>
#t = affine_map<(i, j, k) -> (j, k)>
#s = affine_map<(i, j, k) -> ()>
#c = affine_map<(i, j, k) -> (i, j)>
#v = affine_map<(j, k) -> (k)>
#m = affine_map<(j, k) -> (k, j)>
#r = affine_map<(j, k) -> (j)>
#n = affine_map<(j, k) -> ()>
#id = affine_map<(i, j) -> (i, j)>
func.func @main(%x: tensor<2x600xi8>, %w: tensor<600x3xi8> {numc.weight = "w"}, %start: tensor<2x3xi64>, %y: tensor<600xi8>,
                %square: tensor<2x2xi32>, %row: tensor<3xi32>) -> (tensor<2x3xi64>, tensor<2x2xi32>, tensor<3xi32>) {
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
  %q = linalg.generic {indexing_maps = [#a, #t, #c], iterator_types = ["parallel", "parallel", "reduction"]} ins(%wide, %wide : tensor<2x600xi32>, tensor<2x600xi32>) outs(%square : tensor<2x2xi32>) {
  ^bb0(%u: i32, %v: i32, %o: i32):
    %j = arith.muli %u, %v : i32
    %k = arith.addi %o, %j : i32
    linalg.yield %k : i32
  } -> tensor<2x2xi32>
  %d = linalg.generic {indexing_maps = [#v, #m, #n, #r], iterator_types = ["parallel", "reduction"]} ins(%y, %w, %point : tensor<600xi8>, tensor<600x3xi8>, i32) outs(%row : tensor<3xi32>) {
  ^bb0(%u: i8, %v: i8, %z: i32, %o: i32):
    %f = arith.extui %v : i8 to i32
    %h = arith.extui %u : i8 to i32
    %g = arith.subi %h, %z : i32
    %j = arith.muli %f, %g : i32
    %k = arith.addi %o, %j : i32
    linalg.yield %k : i32
  } -> tensor<3xi32>
  return %p, %q, %d : tensor<2x3xi64>, tensor<2x2xi32>, tensor<3xi32>
}
