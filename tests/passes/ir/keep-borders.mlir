// An image takes the place of another one that nobody reads any more, with its border; the copy of an image is not made.
// What is read later has a border of its own.
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.*]] = memref.alloc() : memref<6x6xf32>
// CHECK-NEXT:    linalg.generic {{.*}} ins(%cst : f32) outs(%[[A]] : memref<6x6xf32>)
// CHECK:         %[[FIRST:.*]] = memref.subview %[[A]]
// CHECK-NEXT:    memref.copy %arg0, %[[FIRST]]
// CHECK-NEXT:    %[[Y:.*]] = memref.alloc() : memref<4x4xf32>
// CHECK-NEXT:    linalg.generic {{.*}} ins(%[[A]] : memref<6x6xf32>) outs(%[[Y]] : memref<4x4xf32>)
// CHECK-NOT:     memref.dealloc
// CHECK:         %[[SECOND:.*]] = memref.subview %[[A]]
// CHECK-NEXT:    memref.copy %[[Y]], %[[SECOND]]
// CHECK-NEXT:    linalg.generic {{.*}} ins(%[[A]] : memref<6x6xf32>) outs(%arg1 : memref<4x4xf32>)
// CHECK:         %[[THIRD:.*]] = memref.subview %[[A]]
// CHECK-NEXT:    linalg.generic {{.*}} ins(%[[A]] : memref<6x6xf32>) outs(%arg1 : memref<4x4xf32>)
// CHECK:         %[[B:.*]] = memref.alloc() : memref<6x6xf32>
// CHECK-NEXT:    linalg.generic {{.*}} ins(%cst : f32) outs(%[[B]] : memref<6x6xf32>)
// CHECK:         linalg.generic {{.*}} ins(%[[B]] : memref<6x6xf32>) outs(%arg1 : memref<4x4xf32>)
// CHECK:         memref.copy %[[SECOND]], %arg0
// CHECK-NEXT:    memref.dealloc %[[A]]
#scalar = affine_map<(d0, d1) -> ()>
#same = affine_map<(d0, d1) -> (d0, d1)>
#near = affine_map<(d0, d1) -> (d0 + 2, d1 + 1)>
module {
  func.func @main(%arg0: memref<4x4xf32>, %arg1: memref<4x4xf32>) {
    %cst = arith.constant 0.000000e+00 : f32
    %a = memref.alloc() : memref<6x6xf32>
    linalg.generic {indexing_maps = [#scalar, #same], iterator_types = ["parallel", "parallel"]} ins(%cst : f32) outs(%a : memref<6x6xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
    %in_a = memref.subview %a[1, 1] [4, 4] [1, 1] : memref<6x6xf32> to memref<4x4xf32, strided<[6, 1], offset: 7>>
    memref.copy %arg0, %in_a : memref<4x4xf32> to memref<4x4xf32, strided<[6, 1], offset: 7>>
    %y = memref.alloc() : memref<4x4xf32>
    linalg.generic {indexing_maps = [#near, #same], iterator_types = ["parallel", "parallel"]} ins(%a : memref<6x6xf32>) outs(%y : memref<4x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
    memref.dealloc %a : memref<6x6xf32>
    %b = memref.alloc() : memref<6x6xf32>
    linalg.generic {indexing_maps = [#scalar, #same], iterator_types = ["parallel", "parallel"]} ins(%cst : f32) outs(%b : memref<6x6xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
    %in_b = memref.subview %b[1, 1] [4, 4] [1, 1] : memref<6x6xf32> to memref<4x4xf32, strided<[6, 1], offset: 7>>
    memref.copy %y, %in_b : memref<4x4xf32> to memref<4x4xf32, strided<[6, 1], offset: 7>>
    linalg.generic {indexing_maps = [#near, #same], iterator_types = ["parallel", "parallel"]} ins(%b : memref<6x6xf32>) outs(%arg1 : memref<4x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
    %c = memref.alloc() : memref<6x6xf32>
    linalg.generic {indexing_maps = [#scalar, #same], iterator_types = ["parallel", "parallel"]} ins(%cst : f32) outs(%c : memref<6x6xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
    %in_c = memref.subview %c[1, 1] [4, 4] [1, 1] : memref<6x6xf32> to memref<4x4xf32, strided<[6, 1], offset: 7>>
    memref.copy %in_b, %in_c : memref<4x4xf32, strided<[6, 1], offset: 7>> to memref<4x4xf32, strided<[6, 1], offset: 7>>
    linalg.generic {indexing_maps = [#near, #same], iterator_types = ["parallel", "parallel"]} ins(%c : memref<6x6xf32>) outs(%arg1 : memref<4x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
    memref.dealloc %c : memref<6x6xf32>
    %d = memref.alloc() : memref<6x6xf32>
    linalg.generic {indexing_maps = [#scalar, #same], iterator_types = ["parallel", "parallel"]} ins(%cst : f32) outs(%d : memref<6x6xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
    %in_d = memref.subview %d[1, 1] [4, 4] [1, 1] : memref<6x6xf32> to memref<4x4xf32, strided<[6, 1], offset: 7>>
    memref.copy %arg1, %in_d : memref<4x4xf32> to memref<4x4xf32, strided<[6, 1], offset: 7>>
    linalg.generic {indexing_maps = [#near, #same], iterator_types = ["parallel", "parallel"]} ins(%d : memref<6x6xf32>) outs(%arg1 : memref<4x4xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    }
    memref.dealloc %d : memref<6x6xf32>
    memref.copy %in_b, %arg0 : memref<4x4xf32, strided<[6, 1], offset: 7>> to memref<4x4xf32>
    memref.dealloc %b : memref<6x6xf32>
    return
  }
}
