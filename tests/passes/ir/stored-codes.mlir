// An argument that is only rounded and compared with zero comes as codes, and is widened right before it is read; a
// result is narrowed right behind what makes it.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[A:.*]]: tensor<8xi16>
// CHECK-SAME:    -> (tensor<8xi1>, tensor<8xf32>, tensor<8xi8>)
// CHECK:         linalg.generic {{.*}} ins(%[[A]] : tensor<8xi16>)
// CHECK:         arith.extui
// CHECK:         arith.cmpf ogt
// CHECK:         "numc.round"(%{{.*}}) {to = "bf16"}
// CHECK:         arith.trunci %{{.*}} : i32 to i8
// CHECK:         return
module attributes {numc.stored_results = [[2, "e4m3"]]} {
func.func @main(%a: tensor<8xf32> {numc.stored = "bf16"}) -> (tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %d = tensor.empty() : tensor<8xi1>
  %p = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : tensor<8xf32>) outs(%d : tensor<8xi1>) {
  ^bb0(%x: f32, %y: i1):
    %q = arith.cmpf ogt, %x, %zero : f32
    linalg.yield %q : i1
  } -> tensor<8xi1>
  %e = tensor.empty() : tensor<8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%x: f32, %y: f32):
    %q = "numc.round"(%x) {to = "bf16"} : (f32) -> f32
    linalg.yield %q : f32
  } -> tensor<8xf32>
  return %p, %r, %r : tensor<8xi1>, tensor<8xf32>, tensor<8xf32>
}
}
