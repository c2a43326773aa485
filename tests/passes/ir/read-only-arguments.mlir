// CHECK: func.func @main(%arg0: tensor<4xf32> {bufferization.writable = false}, %arg1: index)
func.func @main(%a: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
