// A buffer is freed behind its last use, also through a view of it and inside a loop that returns it.
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.*]] = memref.alloc
// CHECK:         memref.expand_shape %[[A]]
// CHECK:         memref.store %{{.*}}, %expand_shape
// CHECK-NEXT:    memref.dealloc %[[A]]
// CHECK:         %[[B:.*]] = memref.alloc
// CHECK:         %[[L:.*]] = scf.for
// CHECK:         memref.load %[[L]]
// CHECK-NEXT:    memref.dealloc %[[B]]
// CHECK:         memref.store
func.func @main(%out: memref<4xf32>, %x: f32, %i: index, %n: index) {
  %a = memref.alloc() : memref<4xf32>
  %v = memref.expand_shape %a [[0, 1]] output_shape [2, 2] : memref<4xf32> into memref<2x2xf32>
  memref.store %x, %v[%i, %i] : memref<2x2xf32>
  %b = memref.alloc() : memref<4xf32>
  %l = scf.for %k = %i to %n step %n iter_args(%c = %b) -> memref<4xf32> {
    scf.yield %c : memref<4xf32>
  }
  %y = memref.load %l[%i] : memref<4xf32>
  memref.store %y, %out[%i] : memref<4xf32>
  memref.dealloc %a : memref<4xf32>
  memref.dealloc %b : memref<4xf32>
  return
}
