// Every loop and copy of @main begins with a mark, and the one behind it says that the part is over, unless the next
// one begins at once. Where a size is known at run time only, the mark has the bytes.
// CHECK:       module attributes {numc.buffers = [{bytes, parts = [1], result = false}], numc.parts = [{after = [], bytes = 4096 : i64, contraction, kind = "gather", layer = "look", role = ""}
// CHECK-SAME:     {after = [], bytes, contraction, kind = "copy", layer = "keep", role = ""}
// CHECK-SAME:     {after = [], bytes = 96 : i64, contraction, kind = "transpose", layer = "", role = ""}
// CHECK-LABEL: func.func @main
// CHECK-DAG:     %[[BETWEEN:.*]] = arith.constant -1 : i64
// CHECK-DAG:     %[[STATIC:.*]] = arith.constant 0 : i64
// CHECK:         %[[ZERO:.*]] = arith.constant 0 : i64
// CHECK-NEXT:    llvm.call @numc_mark(%[[ZERO]], %[[STATIC]])
// CHECK-NEXT:    linalg.generic
// CHECK:         llvm.call @numc_mark(%[[BETWEEN]], %[[STATIC]])
// CHECK-NEXT:    memref.alloc
// CHECK:         %[[ONE:.*]] = arith.constant 1 : i64
// CHECK:         memref.dim
// CHECK:         %[[BYTES:.*]] = arith.index_cast
// CHECK-NEXT:    llvm.call @numc_mark(%[[ONE]], %[[BYTES]])
// CHECK-NEXT:    linalg.generic
// CHECK-NOT:     llvm.call @numc_mark(%[[BETWEEN]]
// CHECK:         %[[TWO:.*]] = arith.constant 2 : i64
// CHECK-NEXT:    llvm.call @numc_mark(%[[TWO]], %[[STATIC]])
// CHECK-NEXT:    linalg.generic
// CHECK:         llvm.call @numc_mark(%[[BETWEEN]], %[[STATIC]])
// CHECK-NEXT:    return
#id = affine_map<(i, j) -> (i, j)>
#swapped = affine_map<(i, j) -> (j, i)>
#line = affine_map<(i) -> (i)>
func.func @main(%table: memref<1000000xf32>, %places: memref<256xi64>, %looked: memref<256xf32>, %free: memref<?xf32>,
                %n: index, %a: memref<3x4xf32>, %b: memref<4x3xf32>) {
  linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%places : memref<256xi64>) outs(%looked : memref<256xf32>) {
  ^bb0(%place: i64, %x: f32):
    %i = arith.index_cast %place : i64 to index
    %y = memref.load %table[%i] : memref<1000000xf32>
    linalg.yield %y : f32
  } loc("look")
  %copy = memref.alloc(%n) : memref<?xf32>
  linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%free : memref<?xf32>) outs(%copy : memref<?xf32>) {
  ^bb0(%x: f32, %y: f32):
    linalg.yield %x : f32
  } loc("keep")
  %whole = memref.cast %copy : memref<?xf32> to memref<*xf32>
  linalg.generic {indexing_maps = [#swapped, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a : memref<3x4xf32>) outs(%b : memref<4x3xf32>) {
  ^bb0(%x: f32, %y: f32):
    linalg.yield %x : f32
  }
  return
}
