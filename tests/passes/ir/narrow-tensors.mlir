// A narrow tensor keeps its dtype as an argument and as a result. In between, numbers are f32: a product and a sum that
// are a contraction are not rounded, but its result; any other operation is; and a conversion is a rounding.

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
#e = affine_map<(m, n) -> (m, n)>

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[A:.*]]: tensor<?x4xbf16>, %[[B:.*]]: tensor<4x2xf32>) -> tensor<?x2xf16>
func.func @main(%a: tensor<?x4xbf16>, %b: tensor<4x2xf32>) -> tensor<?x2xf16> {
  %zero = arith.constant 0.0 : bf16
  %dim = arith.constant 0 : index
  %m = tensor.dim %a, %dim : tensor<?x4xbf16>
  // CHECK: %[[WIDE:.*]] = linalg.generic {{.*}} ins(%[[A]] : tensor<?x4xbf16>)
  // CHECK: arith.extf %{{.*}} : bf16 to f32
  // A conversion is a rounding.
  // CHECK: linalg.generic {{.*}} ins(%[[B]] : tensor<4x2xf32>) outs({{.*}} : tensor<4x2xf32>)
  // CHECK: "numc.round"(%{{.*}}) {to = "bf16"}
  // CHECK-NOT: arith.truncf
  %r = tensor.empty() : tensor<4x2xbf16>
  %nb = linalg.generic {indexing_maps = [#e, #e], iterator_types = ["parallel", "parallel"]}
      ins(%b : tensor<4x2xf32>) outs(%r : tensor<4x2xbf16>) {
  ^bb0(%x: f32, %o: bf16):
    %y = arith.truncf %x : f32 to bf16
    linalg.yield %y : bf16
  } -> tensor<4x2xbf16>
  // The contraction, and the rounding of its result.
  // CHECK: arith.mulf %{{.*}} : f32
  // CHECK-NEXT: arith.addf %{{.*}} : f32
  // CHECK-NEXT: linalg.yield
  // CHECK: "numc.round"(%{{.*}}) {to = "bf16"}
  // CHECK-NEXT: linalg.yield
  %empty = tensor.empty(%m) : tensor<?x2xbf16>
  %init = linalg.fill ins(%zero : bf16) outs(%empty : tensor<?x2xbf16>) -> tensor<?x2xbf16>
  %d = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %nb : tensor<?x4xbf16>, tensor<4x2xbf16>) outs(%init : tensor<?x2xbf16>) {
  ^bb0(%x: bf16, %y: bf16, %o: bf16):
    %p = arith.mulf %x, %y : bf16
    %s = arith.addf %o, %p : bf16
    linalg.yield %s : bf16
  } -> tensor<?x2xbf16>
  // Another operation, in float16.
  // CHECK: math.exp %{{.*}} : f32
  // CHECK-NEXT: "numc.round"(%{{.*}}) {to = "fp16"}
  // CHECK: "numc.round"(%{{.*}}) {to = "fp16"}
  // CHECK-NEXT: arith.truncf %{{.*}} : f32 to f16
  %half = tensor.empty(%m) : tensor<?x2xf16>
  %e = linalg.generic {indexing_maps = [#e, #e], iterator_types = ["parallel", "parallel"]}
      ins(%d : tensor<?x2xbf16>) outs(%half : tensor<?x2xf16>) {
  ^bb0(%x: bf16, %o: f16):
    %w = arith.extf %x : bf16 to f32
    %h = arith.truncf %w : f32 to f16
    %y = math.exp %h : f16
    linalg.yield %y : f16
  } -> tensor<?x2xf16>
  return %e : tensor<?x2xf16>
}
