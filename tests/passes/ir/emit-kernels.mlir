// Every planned contraction becomes a call of a function that describes it to the runtime and starts its tasks, with what
// its region computes besides. The functions are named for the layer.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     scf.execute_region
// CHECK:         %[[ID:.*]] = arith.constant 0 : i64
// CHECK:         call @{{.*}}_contraction(%arg0, %arg1, %arg2, %arg3, %[[ID]])
// CHECK:       func.func private @{{.*}}_task_prologue
// CHECK:       func.func private @{{.*}}_task_epilogue
// CHECK:         arith.maximumf
// CHECK:         call @numc_bf16_1_1_[[TILE:[0-9x]+]]
// CHECK:       func.func private @{{.*}}_contraction
// CHECK:         llvm.call @numc_contract
// CHECK:       func.func private @numc_bf16_1_1_{{.*}}_exact
#map = affine_map<(d0, d1) -> (d1)>
#map1 = affine_map<(d0, d1) -> (d0, d1)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d2)>
#map3 = affine_map<(d0, d1, d2) -> (d2, d1)>
#map4 = affine_map<(d0, d1, d2) -> (d0, d1)>
module {
  func.func @main(%arg0: memref<4x8xf32>, %arg1: memref<8x4xf32>, %arg2: memref<4xf32>, %arg3: memref<4x4xf32>) {
    %cst = arith.constant 0.000000e+00 : f32
    scf.execute_region no_inline {
      %alloc = memref.alloc() : memref<4x4xf32>
      linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel"]} ins(%arg2 : memref<4xf32>) outs(%alloc : memref<4x4xf32>) {
      ^bb0(%in: f32, %out: f32):
        linalg.yield %in : f32
      }
      linalg.generic {indexing_maps = [#map2, #map3, #map4], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0, %arg1 : memref<4x8xf32>, memref<8x4xf32>) outs(%alloc : memref<4x4xf32>) {
      ^bb0(%in: f32, %in_0: f32, %out: f32):
        %0 = "numc.fma"(%in, %in_0, %out) {fma = "bf16_1_1"} : (f32, f32, f32) -> f32
        linalg.yield %0 : f32
      }
      linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel"]} ins(%alloc : memref<4x4xf32>) outs(%arg3 : memref<4x4xf32>) {
      ^bb0(%in: f32, %out: f32):
        %0 = arith.maximumf %in, %cst : f32
        linalg.yield %0 : f32
      }
      scf.yield
    } {numc.contraction = {batch = [], id = 0 : i64, k = [2], lanes = [1], layer = "-", operator = "bf16_1_1", phases = false, role = "", rows = [0], sizes = [4, 4, 8], swap = false}, numc.plan = {counts = 0 : i64, epilogue = "arith.maximumf", guarded = true, packing = {lanes = "panels", rows = "panels"}, dot = 0 : i64, prologue = "copy", tasks = "blocks of rows and lanes", tile = {k_block = 256 : i64, narrow = false, partial = [], rows = 4 : i64, vectors = 1 : i64, width = 8 : i64}, way = "panels", why = "lanes fit into one vector (4): more rows"}}
    return
  }
}

