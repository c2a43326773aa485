// A ReLU is stored in bf16 by what makes it, and padded for a convolution in bf16; the product that it reads stays as
// it is.
// CHECK-LABEL: func.func @main
// CHECK:         %[[P:.*]] = linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<4x8xf32>, tensor<8x6xf32>) outs(%{{.*}} : tensor<4x6xf32>)
// CHECK:         %[[R:.*]] = linalg.generic {{.*}} ins(%[[P]] : tensor<4x6xf32>) outs(%{{.*}} : tensor<4x6xbf16>)
// CHECK:           %[[M:.*]] = arith.maximumf
// CHECK:           %[[E:.*]] = "numc.encode"(%[[M]]) {to = "bf16"} : (f32) -> bf16
// CHECK:           linalg.yield %[[E]] : bf16
// CHECK:         %[[Z:.*]] = arith.constant 0.000000e+00 : bf16
// CHECK:         %[[F:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<6x8xbf16>)
// CHECK:           linalg.yield %[[Z]] : bf16
// CHECK:         %[[I:.*]] = tensor.insert_slice %[[R]] into %[[F]]
// CHECK:         linalg.generic {{.*}} ins(%[[I]], %arg2 : tensor<6x8xbf16>, tensor<3x3xf32>)
// CHECK:         ^bb0(%[[A:.*]]: bf16, %[[B:.*]]: f32, %[[C:.*]]: f32):
// CHECK-NEXT:      %[[X:.*]] = arith.extf %[[A]] : bf16 to f32
// CHECK-NEXT:      %[[Y:.*]] = "numc.round"(%[[B]])
// CHECK-NEXT:      "numc.fma"(%[[X]], %[[Y]], %[[C]])
#row = affine_map<(i, j, k) -> (i, k)>
#column = affine_map<(i, j, k) -> (k, j)>
#out = affine_map<(i, j, k) -> (i, j)>
#same = affine_map<(i, j) -> (i, j)>
#window = affine_map<(i, j, k, l) -> (i + k, j + l)>
#filter = affine_map<(i, j, k, l) -> (k, l)>
#pixel = affine_map<(i, j, k, l) -> (i, j)>
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %f: tensor<3x3xf32>) -> tensor<4x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x6xf32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<4x6xf32>) -> tensor<4x6xf32>
  %p = linalg.generic {indexing_maps = [#row, #column, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%start : tensor<4x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %ra = "numc.round"(%a) {to = "bf16"} : (f32) -> f32
    %rb = "numc.round"(%b) {to = "bf16"} : (f32) -> f32
    %r = "numc.fma"(%ra, %rb, %c) {fma = "mp"} : (f32, f32, f32) -> f32
    linalg.yield %r : f32
  } -> tensor<4x6xf32>
  %relu = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<4x6xf32>) outs(%e : tensor<4x6xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.maximumf %a, %zero : f32
    linalg.yield %r : f32
  } -> tensor<4x6xf32>
  %room = tensor.empty() : tensor<6x8xf32>
  %around = linalg.fill ins(%zero : f32) outs(%room : tensor<6x8xf32>) -> tensor<6x8xf32>
  %padded = tensor.insert_slice %relu into %around[1, 1] [4, 6] [1, 1] : tensor<4x6xf32> into tensor<6x8xf32>
  %q = linalg.generic {indexing_maps = [#window, #filter, #pixel], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%padded, %f : tensor<6x8xf32>, tensor<3x3xf32>) outs(%start : tensor<4x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %ra = "numc.round"(%a) {to = "bf16"} : (f32) -> f32
    %rb = "numc.round"(%b) {to = "bf16"} : (f32) -> f32
    %r = "numc.fma"(%ra, %rb, %c) {fma = "mp"} : (f32, f32, f32) -> f32
    linalg.yield %r : f32
  } -> tensor<4x6xf32>
  return %q : tensor<4x6xf32>
}
