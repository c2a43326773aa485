// Two equal loops share one function; the scalar they capture becomes an argument, the constant moves inside.
// CHECK-LABEL: func.func @main
// CHECK:         call @region_0
// CHECK:         call @region_0
// CHECK:       func.func private @region_0(%{{.*}}: memref<4xf32>, %{{.*}}: f32)
// CHECK:         arith.constant 2.000000e+00
// CHECK-NOT:   @region_1
func.func @main(%a: memref<4xf32>, %b: memref<4xf32>, %s: f32) {
  %two = arith.constant 2.0 : f32
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%a : memref<4xf32>) {
  ^bb0(%x: f32):
    %y = arith.addf %s, %two : f32
    linalg.yield %y : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%b : memref<4xf32>) {
  ^bb0(%x: f32):
    %y = arith.addf %s, %two : f32
    linalg.yield %y : f32
  }
  return
}
