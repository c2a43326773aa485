"""Dynamic sizes that the model calls by one name."""

from __future__ import annotations

import numpy as np
import pytest

from numc.compiler.compile import compile
from numc.compiler.support.errors import NumcError
from numc.frontends.imported import Argument, Imported

ADD = """
func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %r = linalg.add ins(%a, %b : tensor<?xf32>, tensor<?xf32>) outs(%a : tensor<?xf32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}"""


def test_sizes_of_one_name_must_agree() -> None:
    arguments = tuple(Argument(n, "float32", (-1,), ("batch",)) for n in ("a", "b"))
    program = compile(Imported(mlir=ADD, inputs=arguments, outputs=(Argument("y", "float32", (-1,)),)))
    one = np.ones(3, np.float32)
    np.testing.assert_array_equal(program(one, one), 2 * one)
    with pytest.raises(NumcError, match="input 'b': size 'batch' is 2, but input 'a' has 3: want the same in both"):
        program(one, one[:2])
    with pytest.raises(NumcError, match="input 'a': size 'batch' is 0, want at least 1"):
        program(one[:0], one[:0])
