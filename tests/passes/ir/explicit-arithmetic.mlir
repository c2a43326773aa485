// The pass gives every multiply-add its operator, converts what feeds it, and rounds what starts a reduction.
// CHECK-LABEL: func.func @main
// CHECK:         %[[INIT:.*]] = linalg.generic
// CHECK:           "numc.round"(%{{.*}}) {to = "bf16"}
// CHECK:         linalg.generic {{.*}}"reduction"{{.*}} outs(%[[INIT]]
// CHECK:           %[[A:.*]] = "numc.round"(%{{.*}}) {to = "bf16"}
// CHECK-NEXT:      %[[B:.*]] = "numc.round"(%{{.*}}) {to = "bf16"}
// CHECK-NEXT:      %[[D:.*]] = "numc.fma"(%[[A]], %[[B]], %{{.*}}) {fma = "bf16_1_1"}
// CHECK-NEXT:      linalg.yield %[[D]]
// CHECK-NOT:     arith.mulf
func.func @main(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>, %c: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<4x8xf32>, tensor<8x4xf32>) outs(%c : tensor<4x4xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
