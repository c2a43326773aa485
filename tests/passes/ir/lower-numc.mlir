// Rounding to bf16 is integer arithmetic on the encoding: add half an ulp, to even, and cut.
// CHECK-LABEL: func.func @main
// CHECK:         call @numc_scalar_0
// CHECK:       func.func private @numc_scalar_0(%{{.*}}: f32) -> f32
// CHECK:         %[[KEPT:.*]] = arith.constant -65536 : i32
// CHECK:         %[[HALF:.*]] = arith.constant 32767 : i32
// CHECK:         %[[ADDEND:.*]] = arith.addi %{{.*}}, %[[HALF]]
// CHECK:         %[[SUM:.*]] = arith.addi %{{.*}}, %[[ADDEND]]
// CHECK:         arith.andi %[[SUM]], %[[KEPT]]
// CHECK-NOT:   numc.round
func.func @main(%a: f32) -> f32 {
  %r = "numc.round"(%a) {to = "bf16"} : (f32) -> f32
  return %r : f32
}
