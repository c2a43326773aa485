// An f32 FMA is binary64 arithmetic rounded to odd, then converted; an f64 FMA stays.
// CHECK-LABEL: func.func @main(
// CHECK-NOT:     math.fma {{.*}} : vector<4xf32>
// CHECK:         arith.extf %{{.*}} : vector<4xf32> to vector<4xf64>
// CHECK:         arith.mulf %{{.*}}, %{{.*}} : vector<4xf64>
// CHECK:         arith.truncf %{{.*}} : vector<4xf64> to vector<4xf32>
// CHECK:         math.fma %{{.*}} : f64
func.func @main(%a: vector<4xf32>, %b: f64) -> (vector<4xf32>, f64) {
  %r = math.fma %a, %a, %a : vector<4xf32>
  %s = math.fma %b, %b, %b : f64
  return %r, %s : vector<4xf32>, f64
}
