"""Results that take the memory of an input: where that is safe, and never at the price of a result."""

from __future__ import annotations

import numpy as np
import pytest

import numc
from numc.frontends.imported import Argument, Imported

MOMENTUM = """
#id = affine_map<(d0) -> (d0)>
func.func @main(%p: tensor<1000xf32>, %m: tensor<1000xf32>, %g: tensor<1000xf32>)
    -> (tensor<1000xf32>, tensor<1000xf32>) {
  %rate = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<1000xf32>
  %moved = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%m, %g : tensor<1000xf32>, tensor<1000xf32>) outs(%e : tensor<1000xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %half = arith.mulf %a, %rate : f32
    %sum = arith.addf %half, %b : f32
    linalg.yield %sum : f32
  } -> tensor<1000xf32>
  %new = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%p, %moved : tensor<1000xf32>, tensor<1000xf32>) outs(%e : tensor<1000xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %less = arith.mulf %b, %rate : f32
    %difference = arith.subf %a, %less : f32
    linalg.yield %difference : f32
  } -> tensor<1000xf32>
  return %new, %moved : tensor<1000xf32>, tensor<1000xf32>
}
"""

# Each element of the first result needs another one of the old x, and so does all of the second result.
REVERSED = """
#id = affine_map<(d0) -> (d0)>
#back = affine_map<(d0) -> (-d0 + 999)>
func.func @main(%x: tensor<1000xf32>) -> (tensor<1000xf32>, tensor<1000xf32>) {
  %e = tensor.empty() : tensor<1000xf32>
  %sum = linalg.generic {indexing_maps = [#id, #back, #id], iterator_types = ["parallel"]}
      ins(%x, %x : tensor<1000xf32>, tensor<1000xf32>) outs(%e : tensor<1000xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<1000xf32>
  %negated = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<1000xf32>) outs(%e : tensor<1000xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.negf %a : f32
    linalg.yield %s : f32
  } -> tensor<1000xf32>
  return %sum, %negated : tensor<1000xf32>, tensor<1000xf32>
}
"""


def compiled(mlir: str, inputs: int, updates: dict[int, int]) -> numc.Program:
    tensors = [Argument(f"t{n}", "float32", (1000,)) for n in range(inputs + 2)]
    return numc.compile(Imported(mlir, tuple(tensors[:inputs]), tuple(tensors[inputs:]), updates=updates), cache=False)


def given(count: int) -> list[np.ndarray]:
    return list(np.random.default_rng(0).standard_normal((count, 1000)).astype(np.float32))


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_read_and_written_at_one_place_is_updated_in_place(threads: int) -> None:
    program = compiled(MOMENTUM, 3, {0: 0, 1: 1})
    want = list(compiled(MOMENTUM, 3, {})(*given(3)).values())
    inputs = given(3)
    got = list(program(*inputs, threads=threads).values())
    assert [a.tobytes() for a in got] == [b.tobytes() for b in want]
    assert got[0] is inputs[0]
    assert got[1] is inputs[1]
    assert inputs[2].tobytes() == given(3)[2].tobytes()


def test_a_program_keeps_what_it_updates_in_its_file(tmp_path: object) -> None:
    compiled(MOMENTUM, 3, {0: 0, 1: 1}).save(f"{tmp_path}/p.numc")
    inputs = given(3)
    got = numc.load(f"{tmp_path}/p.numc")(*inputs)
    assert list(got.values())[1] is inputs[1]


def test_a_result_that_needs_old_values_elsewhere_gets_memory_of_its_own() -> None:
    (x,) = given(1)
    got = list(compiled(REVERSED, 1, {0: 0})(x.copy()).values())
    assert got[0].tobytes() == (x + x[::-1]).tobytes()
    assert got[1].tobytes() == (-x).tobytes()


def test_an_input_that_cannot_be_written_is_refused() -> None:
    program = compiled(MOMENTUM, 3, {0: 0, 1: 1})
    inputs = given(3)
    inputs[0].flags.writeable = False
    with pytest.raises(numc.NumcError, match="^input 't0': the program updates it, and got an array that is read-only"):
        program(*inputs)
    assert inputs[0].tobytes() == given(3)[0].tobytes()


def test_updates_of_arrays_and_tensors_of_every_kind_are_those_that_were_given() -> None:
    torch = pytest.importorskip("torch")
    for program in (compiled(MOMENTUM, 3, {0: 0, 1: 1}), compiled(REVERSED, 1, {0: 0})):
        count = len(program.inputs)
        want = [result.tobytes() for result in program(*given(count)).values()]
        scattered, swapped = np.zeros((1000, 2), np.float32)[:, 0], given(count)[0].astype(">f4")
        scattered[...] = given(count)[0]
        for first in (given(count)[0], scattered, swapped):
            got = list(program(first, *given(count)[1:]).values())
            assert got[0] is first
            assert [result.astype(np.float32).tobytes() for result in got] == want
        for first in (torch.from_numpy(given(count)[0]), torch.zeros(1000, 2)[:, 0]):
            first.copy_(torch.from_numpy(given(count)[0]))
            got = program.run((first, *given(count)[1:]))  # other inputs are arrays
            assert got[0] is first
            assert all(type(result) is torch.Tensor for result in got)
            assert [result.numpy().tobytes() for result in got] == want


def test_values_in_order_have_to_be_all_of_them() -> None:
    program = compiled(MOMENTUM, 3, {})
    with pytest.raises(numc.NumcError, match="^program: missing 't2': want 't0', 't1', 't2'$"):
        program.run(tuple(given(2)))
    with pytest.raises(numc.NumcError, match="^program: got 4 inputs, want 3"):
        program.run(tuple(given(4)))
