// Parts that do not depend on each other become chains. A buffer that one chain alone uses is allocated and freed in
// it, other buffers exist in @main as long as both chains run; views are computed again. A sort keeps its region.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     memref.alloc() : memref<1024x1024xf32>
// CHECK:         %[[JOINED:.*]] = memref.alloc() : memref<2x1024x1024xf32>
// CHECK-NOT:     call @put
// CHECK-DAG:     constant @chain_0
// CHECK-DAG:     constant @chain_1
// CHECK:         llvm.call @numc_side_by_side
// CHECK-NOT:     call @put
// CHECK:         call @end(%[[JOINED]])
// CHECK:         memref.dealloc %[[JOINED]]
// CHECK-LABEL: func.func private @chain_0
// CHECK:         memref.subview
// CHECK:         %[[OWN:.*]] = memref.alloc() : memref<1024x1024xf32>
// CHECK:         call @work(%{{.*}}, %[[OWN]])
// CHECK-NEXT:    tm_tensor.sort dimension(1) outs(%[[OWN]] : memref<1024x1024xf32>) {
// CHECK-NEXT:    ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32):
// CHECK-NEXT:      arith.cmpf olt, %[[A]], %[[B]] : f32
// CHECK:         call @put(%[[OWN]],
// CHECK:         memref.dealloc %[[OWN]]
// CHECK-LABEL: func.func private @chain_1
// CHECK-NOT:     memref.alloc
// CHECK:         call @put
module attributes {
  numc.parts = [
    {after = [], bytes = 8388608 : i64, contraction, kind = "copy", layer = "a", role = ""},
    {after = [0], bytes = 8388608 : i64, contraction, kind = "copy", layer = "b", role = ""},
    {after = [], bytes = 16777216 : i64, contraction, kind = "copy", layer = "c", role = ""},
    {after = [1, 2], bytes = 16777216 : i64, contraction, kind = "copy", layer = "d", role = ""}],
  numc.buffers = [
    {bytes = 8388608 : i64, parts = [1, 2, 3], result = false},
    {bytes = 4194304 : i64, parts = [0, 1], result = false}]} {
  llvm.func @numc_mark(i64, i64)
  func.func private @work(memref<1024x1024xf32>, memref<1024x1024xf32>)
  func.func private @put(memref<1024x1024xf32>, memref<1x1024x1024xf32, strided<[1048576, 1024, 1], offset: ?>>)
  func.func private @end(memref<2x1024x1024xf32>)
  func.func @main(%x: memref<1024x1024xf32>) {
    %zero = arith.constant 0 : i64
    %over = arith.constant -1 : i64
    %joined = memref.alloc() : memref<2x1024x1024xf32>
    %upper = memref.subview %joined[0, 0, 0] [1, 1024, 1024] [1, 1, 1] : memref<2x1024x1024xf32>
        to memref<1x1024x1024xf32, strided<[1048576, 1024, 1]>>
    %up = memref.cast %upper : memref<1x1024x1024xf32, strided<[1048576, 1024, 1]>>
        to memref<1x1024x1024xf32, strided<[1048576, 1024, 1], offset: ?>>
    %lower = memref.subview %joined[1, 0, 0] [1, 1024, 1024] [1, 1, 1] : memref<2x1024x1024xf32>
        to memref<1x1024x1024xf32, strided<[1048576, 1024, 1], offset: 1048576>>
    %low = memref.cast %lower : memref<1x1024x1024xf32, strided<[1048576, 1024, 1], offset: 1048576>>
        to memref<1x1024x1024xf32, strided<[1048576, 1024, 1], offset: ?>>
    %own = memref.alloc() : memref<1024x1024xf32>
    llvm.call @numc_mark(%zero, %zero) : (i64, i64) -> ()
    func.call @work(%x, %own) : (memref<1024x1024xf32>, memref<1024x1024xf32>) -> ()
    tm_tensor.sort dimension(1) outs(%own : memref<1024x1024xf32>) {
    ^bb0(%a: f32, %b: f32):
      %before = arith.cmpf olt, %a, %b : f32
      tm_tensor.yield %before : i1
    }
    %one = arith.constant 1 : i64
    llvm.call @numc_mark(%one, %zero) : (i64, i64) -> ()
    func.call @put(%own, %up) : (memref<1024x1024xf32>, memref<1x1024x1024xf32, strided<[1048576, 1024, 1], offset: ?>>) -> ()
    llvm.call @numc_mark(%over, %zero) : (i64, i64) -> ()
    memref.dealloc %own : memref<1024x1024xf32>
    %two = arith.constant 2 : i64
    llvm.call @numc_mark(%two, %zero) : (i64, i64) -> ()
    func.call @put(%x, %low) : (memref<1024x1024xf32>, memref<1x1024x1024xf32, strided<[1048576, 1024, 1], offset: ?>>) -> ()
    llvm.call @numc_mark(%over, %zero) : (i64, i64) -> ()
    %three = arith.constant 3 : i64
    llvm.call @numc_mark(%three, %zero) : (i64, i64) -> ()
    func.call @end(%joined) : (memref<2x1024x1024xf32>) -> ()
    llvm.call @numc_mark(%over, %zero) : (i64, i64) -> ()
    memref.dealloc %joined : memref<2x1024x1024xf32>
    return
  }
}
