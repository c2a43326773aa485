// A contraction moves into a region with what its kernel computes besides: here a bias that starts the accumulators, and a
// maximum with zero on the way out. The attributes of the region say what is computed, and how.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     linalg.generic
// CHECK:         scf.execute_region
// CHECK:           memref.alloc
// CHECK:           linalg.generic
// CHECK:             linalg.yield
// CHECK:           linalg.generic
// CHECK:             numc.fma
// CHECK:           linalg.generic
// CHECK:             arith.maximumf
// CHECK:         numc.contraction = {
// CHECK-SAME:      operator = "bf16_1_1"
// CHECK-SAME:    numc.plan = {
// CHECK-SAME:      epilogue = "arith.maximumf"
// CHECK-SAME:      k_block = 256
// CHECK-NOT:     linalg.generic
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
