// A matrix that is rolled along both dimensions is cut in four. What is put together from parts that lie over each other,
// is used as a whole, or is cut where no part is, is left as it is.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %[[X:.*]]: tensor<5x4xf32>
// CHECK-NEXT:    %[[BELOW:.*]] = tensor.extract_slice %[[X]][2, 0] [3, 4]
// CHECK-NEXT:    %[[ABOVE:.*]] = tensor.extract_slice %[[X]][0, 0] [2, 4]
// CHECK-NOT:     tensor.insert_slice %[[BELOW]]
// CHECK:         tensor.extract_slice %[[BELOW]][0, 1] [3, 3]
// CHECK-NEXT:    tensor.insert_slice %{{.*}} into %{{.*}}[0, 0] [3, 3]
// CHECK-NEXT:    tensor.extract_slice %[[ABOVE]][0, 1] [2, 3]
// CHECK-NEXT:    tensor.insert_slice %{{.*}} into %{{.*}}[3, 0] [2, 3]
// CHECK-NEXT:    tensor.extract_slice %[[BELOW]][0, 0] [3, 1]
// CHECK-NEXT:    tensor.insert_slice %{{.*}} into %{{.*}}[0, 3] [3, 1]
// CHECK-NEXT:    tensor.extract_slice %[[ABOVE]][0, 0] [2, 1]
// CHECK-NEXT:    %[[ROLLED:.*]] = tensor.insert_slice %{{.*}} into %{{.*}}[3, 3] [2, 1]
// CHECK:         %[[OVER:.*]] = tensor.insert_slice %[[ABOVE]] into %{{.*}}[1, 0]
// CHECK-NEXT:    tensor.extract_slice %[[OVER]]
// CHECK:         %[[HOLE:.*]] = tensor.insert_slice %[[ABOVE]] into %{{.*}}[0, 0]
// CHECK-NEXT:    tensor.extract_slice %[[HOLE]]
// CHECK:         %[[USED:.*]] = tensor.insert_slice %[[ABOVE]] into %{{.*}}[3, 0]
// CHECK-NEXT:    tensor.extract_slice %[[USED]]
// CHECK:         return %[[ROLLED]]
func.func @main(%x: tensor<5x4xf32>) -> (tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>) {
  %below = tensor.extract_slice %x[2, 0] [3, 4] [1, 1] : tensor<5x4xf32> to tensor<3x4xf32>
  %above = tensor.extract_slice %x[0, 0] [2, 4] [1, 1] : tensor<5x4xf32> to tensor<2x4xf32>
  %e = tensor.empty() : tensor<5x4xf32>
  %0 = tensor.insert_slice %below into %e[0, 0] [3, 4] [1, 1] : tensor<3x4xf32> into tensor<5x4xf32>
  %1 = tensor.insert_slice %above into %0[3, 0] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<5x4xf32>
  %right = tensor.extract_slice %1[0, 1] [5, 3] [1, 1] : tensor<5x4xf32> to tensor<5x3xf32>
  %left = tensor.extract_slice %1[0, 0] [5, 1] [1, 1] : tensor<5x4xf32> to tensor<5x1xf32>
  %2 = tensor.insert_slice %right into %e[0, 0] [5, 3] [1, 1] : tensor<5x3xf32> into tensor<5x4xf32>
  %3 = tensor.insert_slice %left into %2[0, 3] [5, 1] [1, 1] : tensor<5x1xf32> into tensor<5x4xf32>

  %4 = tensor.insert_slice %below into %e[0, 0] [3, 4] [1, 1] : tensor<3x4xf32> into tensor<5x4xf32>
  %over = tensor.insert_slice %above into %4[1, 0] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<5x4xf32>
  %5 = tensor.extract_slice %over[0, 0] [3, 4] [1, 1] : tensor<5x4xf32> to tensor<3x4xf32>
  %6 = tensor.insert_slice %5 into %e[0, 0] [3, 4] [1, 1] : tensor<3x4xf32> into tensor<5x4xf32>

  %hole = tensor.insert_slice %above into %x[0, 0] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<5x4xf32>
  %7 = tensor.extract_slice %hole[1, 0] [3, 4] [1, 1] : tensor<5x4xf32> to tensor<3x4xf32>
  %8 = tensor.insert_slice %7 into %e[0, 0] [3, 4] [1, 1] : tensor<3x4xf32> into tensor<5x4xf32>

  %9 = tensor.insert_slice %below into %e[0, 0] [3, 4] [1, 1] : tensor<3x4xf32> into tensor<5x4xf32>
  %used = tensor.insert_slice %above into %9[3, 0] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<5x4xf32>
  %10 = tensor.extract_slice %used[0, 0] [3, 4] [1, 1] : tensor<5x4xf32> to tensor<3x4xf32>
  %11 = tensor.insert_slice %10 into %e[0, 0] [3, 4] [1, 1] : tensor<3x4xf32> into tensor<5x4xf32>
  return %3, %6, %8, %11, %used : tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>
}
