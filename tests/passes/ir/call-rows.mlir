// The steps of a chain are noted down between two calls, the first of which says whether a row is a batch, and the loops in
// it know how many rows they have.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scf.execute_region
// CHECK:         llvm.call @numc_rows_begin()
// CHECK-NEXT:    memref.alloc
// CHECK-NEXT:    linalg.generic
// CHECK:         memref.dealloc
// CHECK-NEXT:    llvm.call @numc_rows_end()
// CHECK-NEXT:    llvm.call @numc_batches_begin()
// CHECK-NEXT:    linalg.generic
// CHECK:         llvm.call @numc_rows_end()
// CHECK-NEXT:    return
#id = affine_map<(i, j) -> (i, j)>
func.func @main(%x: memref<4x8xf32>, %y: memref<4x8xf32>) {
  scf.execute_region no_inline {
    %between = memref.alloc() : memref<4x8xf32>
    linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
        ins(%x : memref<4x8xf32>) outs(%between : memref<4x8xf32>) attrs = {numc.rows = 1 : i64} {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
    memref.dealloc %between : memref<4x8xf32>
    scf.yield
  } {numc.rows = [0, 1]}
  scf.execute_region no_inline {
    linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
        ins(%x : memref<4x8xf32>) outs(%y : memref<4x8xf32>) attrs = {numc.rows = 1 : i64} {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
    scf.yield
  } {numc.batches, numc.rows = [2, 3]}
  return
}
