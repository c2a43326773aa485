"""Functions that passes add to a module: equal ones once."""

from torch_mlir import ir

from numc.passes.plan.functions import Functions, kernels_of

TASK = """llvm.func @SELF(%x: f32) {
  func.call @SELF_body(%x) : (f32) -> ()
  llvm.return
}
func.func private @SELF_body(%x: f32) {
  %0 = func.call @SELF_edge(%x) : (f32) -> f32
  return
}
func.func private @SELF_edge(%x: f32) -> f32 {
  %0 = arith.OPERATION %x, %x : f32
  return %0 : f32
}
"""


def added(*operations):
    """The functions, by name with their texts, of tasks of which each does one of these operations."""
    module = ir.Module.parse("func.func @main() { return }", ir.Context())
    with module.context, ir.Location.unknown():
        functions = Functions(module.operation)
        names = [
            functions.define(TASK.replace("OPERATION", operation), f"layer {n}", "task", ir.Location.name(f"layer {n}"))
            for n, operation in enumerate(operations)
        ]
        functions.finish(["func.func private @declared(f32)", "func.func private @declared_too(f32)"])
        assert module.operation.verify()
        return names, {name: str(op) for name, op in kernels_of(module.operation).items()}


def test_equal_tasks_are_one():
    names, found = added("addf", "addf")
    assert names == ["layer_0_task", "layer_0_task"]
    assert list(found) == ["layer_0_task", "layer_0_task_body", "layer_0_task_edge"]


def test_equal_functions_of_tasks_are_one():
    """Also where functions become equal because what they call is one function now; a task keeps its name."""
    extra = TASK.replace("llvm.return", "func.call @SELF_body(%x) : (f32) -> ()\n  llvm.return")
    module = ir.Module.parse("func.func @main() { return }", ir.Context())
    with module.context, ir.Location.unknown():
        functions = Functions(module.operation)
        for n, text in enumerate((TASK, extra)):
            functions.define(text.replace("OPERATION", "addf"), f"layer {n}", "task", ir.Location.unknown())
        functions.finish([])
        found = kernels_of(module.operation)
    assert list(found) == ["layer_0_task", "layer_0_task_body", "layer_0_task_edge", "layer_1_task"]
    assert str(found["layer_1_task"]).count("call @layer_0_task_body") == 2


def test_different_functions_stay():
    _, found = added("addf", "mulf")
    assert len(found) == 6
    assert "call @layer_1_task_edge" in found["layer_1_task_body"]
