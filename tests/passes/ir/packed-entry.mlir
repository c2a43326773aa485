// main becomes a function of one pointer: results first, then one descriptor an argument.
// CHECK-NOT:   @main(
// CHECK-LABEL: func.func @numc_entry(%arg0: !llvm.ptr)
// CHECK:         llvm.getelementptr %arg0[1]
// CHECK:         memref.copy
// CHECK:         llvm.store %{{.*}}, %{{.*}} : !llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>, !llvm.ptr
func.func @main(%a: memref<4xf32>) -> memref<4xf32> {
  %r = memref.alloc() : memref<4xf32>
  memref.copy %a, %r : memref<4xf32> to memref<4xf32>
  return %r : memref<4xf32>
}
