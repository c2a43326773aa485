// A check that fails ends the run with the number of its text, not the process.
// CHECK-LABEL: func.func @main
// CHECK:         %[[FAILED:.*]] = arith.xori %arg0
// CHECK:         scf.if %[[FAILED]] {
// CHECK:           %[[CODE:.*]] = arith.constant 1 : i32
// CHECK:           func.call @numc_fail(%[[CODE]])
// CHECK:         }
// CHECK-NOT:     cf.assert
// CHECK:         func.func private @numc_fail(i32)
func.func @main(%ok: i1) {
  cf.assert %ok, "an index is out of range"
  return
}
