// A sort works on a buffer of its own, a copy of what it sorts, which no other tensor names.
// CHECK-LABEL: func.func @main
// CHECK:         %[[COPY:.*]] = memref.alloc
// CHECK:         bufferization.to_tensor %[[COPY]] restrict
// CHECK:         memref.copy
// CHECK:         tm_tensor.sort
// CHECK-SAME:    %[[COPY]]
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %r = tm_tensor.sort dimension(0) outs(%a : tensor<4xf32>) {
  ^bb0(%x: f32, %y: f32):
    %c = arith.cmpf ole, %x, %y : f32
    tm_tensor.yield %c : i1
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}
