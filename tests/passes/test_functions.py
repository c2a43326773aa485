"""Functions that passes add to a module: equal ones once, and those that are needed."""

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


def test_functions_that_nothing_needs_are_left_out():
    """Of what tasks share, as the functions of a kernel, the ones that they call, and what these call."""
    shared = "func.func private @NAME(%x: f32) {\n  CALL\n  return\n}\n"
    texts = [
        shared.replace("NAME", "called").replace("CALL", "func.call @inner(%x) : (f32) -> ()"),
        shared.replace("NAME", "inner").replace("CALL", "%0 = arith.addf %x, %x : f32"),
        shared.replace("NAME", "left_out").replace("CALL", "func.call @inner(%x) : (f32) -> ()"),
    ]
    task = "func.func @SELF(%x: f32) {\n  func.call @called(%x) : (f32) -> ()\n  return\n}\n"
    module = ir.Module.parse("func.func @main() { return }", ir.Context())
    with module.context, ir.Location.unknown():
        functions = Functions(module.operation)
        functions.define(task, "layer", "task", ir.Location.unknown())
        functions.add_shared(texts, ir.Location.unknown())
        functions.finish([])
        found = kernels_of(module.operation)
    assert list(found) == ["layer_task", "called", "inner"]
