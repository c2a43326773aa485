// The first result is the first argument: it is returned and not a copy. The copy of the second one was made before
// something else was written, so it stays.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: memref<8xf32> {numc.updates = 0 : i64}, %[[Y:.*]]: memref<8xf32> {numc.updates = 1 : i64})
// CHECK: %[[COPY:.*]] = memref.alloc() : memref<8xf32>
// CHECK: memref.copy %[[Y]], %[[COPY]]
// CHECK: linalg.fill
// CHECK-NOT: memref.alloc
// CHECK-NOT: memref.copy
// CHECK: return %[[X]], %[[COPY]]
func.func @main(%x: memref<8xf32> {numc.updates = 0 : i64}, %y: memref<8xf32> {numc.updates = 1 : i64}) -> (memref<8xf32>, memref<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %other = memref.alloc() : memref<8xf32>
  memref.copy %y, %other : memref<8xf32> to memref<8xf32>
  linalg.fill ins(%zero : f32) outs(%y : memref<8xf32>)
  %copy = memref.alloc() : memref<8xf32>
  memref.copy %x, %copy : memref<8xf32> to memref<8xf32>
  return %copy, %other : memref<8xf32>, memref<8xf32>
}
