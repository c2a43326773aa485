// What is quantised is stored in bytes without a sign, padded in bytes, and read by a contraction of bytes and by a
// residual; the float32 numbers between them are gone. The other contraction reads bytes with a sign. What does not fit,
// and what is returned, stays as it is.
// CHECK-LABEL: func.func @main
// CHECK:         %[[Q:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<4x8xf32>) outs(%{{.*}} : tensor<4x8xi8>)
// CHECK:           %[[W:.*]] = arith.extui %{{.*}} : i8 to i32
// CHECK-NEXT:      %[[B:.*]] = arith.trunci %[[W]] : i32 to i8
// CHECK-NEXT:      linalg.yield %[[B]] : i8
// CHECK:         %[[Z:.*]] = arith.constant 7 : i8
// CHECK:         %[[F:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<6x8xi8>)
// CHECK:           linalg.yield %[[Z]] : i8
// CHECK:         %[[I:.*]] = tensor.insert_slice %[[Q]] into %[[F]]
// CHECK:         linalg.generic {{.*}} ins(%[[I]], %arg1 : tensor<6x8xi8>, tensor<8x6xf32>)
// CHECK:         ^bb0(%[[A:.*]]: i8, %{{.*}}: f32, %{{.*}}: f32):
// CHECK-NEXT:      %[[X:.*]] = arith.uitofp %[[A]] : i8 to f32
// CHECK-NEXT:      "numc.fma"(%[[X]]
// CHECK:         %[[S:.*]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<4x8xi8>) outs(%{{.*}} : tensor<4x8xi8>)
// CHECK:         ^bb0(%[[A:.*]]: i8, %{{.*}}: i8):
// CHECK-NEXT:      %{{.*}} = arith.extui %[[A]] : i8 to i32
// CHECK:           arith.fptosi %{{.*}} : f32 to i32
// CHECK-NEXT:      arith.trunci
// CHECK:         linalg.generic {{.*}} ins(%arg2, %[[S]] : tensor<6x4xf32>, tensor<4x8xi8>)
// CHECK:         ^bb0(%{{.*}}: f32, %[[A:.*]]: i8, %{{.*}}: f32):
// CHECK-NEXT:      arith.sitofp %[[A]] : i8 to f32
// CHECK:         %[[R:.*]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<4x8xi8>) outs(%{{.*}} : tensor<4x8xi32>)
// CHECK:         return %{{.*}}, %{{.*}}, %[[R]]
#row = affine_map<(i, j, k) -> (i, k)>
#column = affine_map<(i, j, k) -> (k, j)>
#out = affine_map<(i, j, k) -> (i, j)>
#same = affine_map<(i, j) -> (i, j)>
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %v: tensor<6x4xf32>) -> (tensor<6x6xf32>, tensor<6x8xf32>, tensor<4x8xi32>) {
  %zero = arith.constant 0.0 : f32
  %seven = arith.constant 7.0 : f32
  %far = arith.constant 300 : i32
  %e = tensor.empty() : tensor<4x8xi32>
  %q = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xi32>) {
  ^bb0(%a: f32, %b: i32):
    %n = arith.fptosi %a : f32 to i8
    %r = arith.extui %n : i8 to i32
    linalg.yield %r : i32
  } -> tensor<4x8xi32>
  %fe = tensor.empty() : tensor<4x8xf32>
  %f = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%q : tensor<4x8xi32>) outs(%fe : tensor<4x8xf32>) {
  ^bb0(%a: i32, %b: f32):
    %r = arith.sitofp %a : i32 to f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %room = tensor.empty() : tensor<6x8xf32>
  %around = linalg.fill ins(%seven : f32) outs(%room : tensor<6x8xf32>) -> tensor<6x8xf32>
  %padded = tensor.insert_slice %f into %around[1, 0] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<6x8xf32>
  %pe = tensor.empty() : tensor<6x6xf32>
  %ps = linalg.fill ins(%zero : f32) outs(%pe : tensor<6x6xf32>) -> tensor<6x6xf32>
  %p = linalg.generic {indexing_maps = [#row, #column, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%padded, %w : tensor<6x8xf32>, tensor<8x6xf32>) outs(%ps : tensor<6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %r = "numc.fma"(%a, %b, %c) {fma = "bytes"} : (f32, f32, f32) -> f32
    linalg.yield %r : f32
  } -> tensor<6x6xf32>
  %s = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%q : tensor<4x8xi32>) outs(%fe : tensor<4x8xf32>) {
  ^bb0(%a: i32, %b: f32):
    %n = arith.trunci %a : i32 to i8
    %r = arith.sitofp %n : i8 to f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %te = tensor.empty() : tensor<6x8xf32>
  %ts = linalg.fill ins(%zero : f32) outs(%te : tensor<6x8xf32>) -> tensor<6x8xf32>
  %t = linalg.generic {indexing_maps = [#row, #column, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%v, %s : tensor<6x4xf32>, tensor<4x8xf32>) outs(%ts : tensor<6x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %r = "numc.fma"(%a, %b, %c) {fma = "bytes"} : (f32, f32, f32) -> f32
    linalg.yield %r : f32
  } -> tensor<6x8xf32>
  %u = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%q : tensor<4x8xi32>) outs(%e : tensor<4x8xi32>) {
  ^bb0(%a: i32, %b: i32):
    %r = arith.addi %a, %far : i32
    linalg.yield %r : i32
  } -> tensor<4x8xi32>
  return %p, %t, %u : tensor<6x6xf32>, tensor<6x8xf32>, tensor<4x8xi32>
}

// Integers that are read likewise, and do not fit.
// CHECK-LABEL: func.func @far
// CHECK:           %[[R:.*]] = arith.addi
// CHECK-NEXT:      linalg.yield %[[R]] : i32
func.func @far(%x: tensor<6x8xf32>, %w: tensor<8x6xf32>) -> tensor<6x6xf32> {
  %zero = arith.constant 0.0 : f32
  %far = arith.constant 100 : i32
  %e = tensor.empty() : tensor<6x8xi32>
  %q = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x8xf32>) outs(%e : tensor<6x8xi32>) {
  ^bb0(%a: f32, %b: i32):
    %n = arith.fptosi %a : f32 to i8
    %m = arith.extui %n : i8 to i32
    %r = arith.addi %m, %far : i32
    linalg.yield %r : i32
  } -> tensor<6x8xi32>
  %fe = tensor.empty() : tensor<6x8xf32>
  %f = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%q : tensor<6x8xi32>) outs(%fe : tensor<6x8xf32>) {
  ^bb0(%a: i32, %b: f32):
    %r = arith.sitofp %a : i32 to f32
    linalg.yield %r : f32
  } -> tensor<6x8xf32>
  %pe = tensor.empty() : tensor<6x6xf32>
  %ps = linalg.fill ins(%zero : f32) outs(%pe : tensor<6x6xf32>) -> tensor<6x6xf32>
  %p = linalg.generic {indexing_maps = [#row, #column, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%f, %w : tensor<6x8xf32>, tensor<8x6xf32>) outs(%ps : tensor<6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %r = "numc.fma"(%a, %b, %c) {fma = "integers"} : (f32, f32, f32) -> f32
    linalg.yield %r : f32
  } -> tensor<6x6xf32>
  return %p : tensor<6x6xf32>
}
