// A contraction becomes a call of a function that describes it to the runtime, with what stood around it: here a bias that
// starts the accumulators and a maximum with zero on the way out. Neither is a loop of its own any more.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     linalg.generic
// CHECK:         %[[ID:.*]] = arith.constant 0 : i64
// CHECK:         call @contraction_0(%arg0, %arg1, %arg2, %arg3, %[[ID]])
// CHECK:       func.func private @task_0_first
// CHECK:       func.func private @task_0_last
// CHECK:         arith.maximumf
// CHECK:       func.func private @task_0_body
// CHECK:         call @numc_bf16_1_1_[[TILE:[0-9x]+]]
// CHECK:       func.func private @contraction_0
// CHECK:         llvm.call @numc_contract
// CHECK:       func.func private @numc_bf16_1_1_{{.*}}_exact
func.func @main(%a: memref<4x8xf32>, %b: memref<8x4xf32>, %bias: memref<4xf32>, %out: memref<4x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %c = memref.alloc() : memref<4x4xf32>
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%bias : memref<4xf32>) outs(%c : memref<4x4xf32>) {
  ^bb0(%x: f32, %z: f32):
    linalg.yield %x : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<4x8xf32>, memref<8x4xf32>) outs(%c : memref<4x4xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %s = "numc.fma"(%x, %y, %z) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
    linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%c : memref<4x4xf32>) outs(%out : memref<4x4xf32>) {
  ^bb0(%x: f32, %z: f32):
    %y = arith.maximumf %x, %zero : f32
    linalg.yield %y : f32
  }
  return
}
