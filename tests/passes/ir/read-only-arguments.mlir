// Nothing may be written into an input or a weight, unless a result may take its memory. Other attributes stay.
// CHECK: func.func @main(%arg0: tensor<4xf32> {bufferization.writable = false, numc.weight = "a"}, %arg1: index, %arg2: tensor<4xf32> {bufferization.writable = true, numc.updates = 0 : i64})
func.func @main(%a: tensor<4xf32> {numc.weight = "a"}, %n: index, %b: tensor<4xf32> {numc.updates = 0 : i64}) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
