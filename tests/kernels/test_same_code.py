"""Which targets and options share their code: the other tests compile and run each code once."""

from __future__ import annotations

from dataclasses import fields
from hashlib import sha256

import pytest

from numc.compiler.options import Options
from numc.compiler.programs.build import build
from numc.frontends.imported import Imported
from numc.passes.kernels.kernel import Kernel
from targets_here import HERE, WITHOUT_CHEAP, variants
from tiers import by_default, one_in

MATMUL = """
func.func @main(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %c: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%c : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}"""
OPERATORS = (
    *("bf16_1_2", "mac(e5m2,chunk=3)", "fma(a=bf16,acc=bf16:sr8)"),
    *("highbfp", "fma(a=bfp(16,3,4),acc=fp32,datapath=fmac2)", "int8", "mxint8"),
)


def _named(kernel: Kernel) -> str:
    """A name of a kernel without that of its instructions: equal code has equal bytes, then."""
    said = [(each.name, getattr(kernel, each.name)) for each in fields(kernel) if each.name != "isa"]
    return f"numc_{sha256(repr(said).encode()).hexdigest()[:8]}"


@pytest.mark.parametrize("fma", by_default(one_in(3, OPERATORS), ["bf16_1_2", "mxint8"]))
@pytest.mark.all
def test_what_is_left_out_has_the_code_of_what_is_kept(fma: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kernel, "name", property(_named))

    def code(target: str, fast: bool) -> bytes:
        return build(Imported(mlir=MATMUL), Options(fma=fma, target=target, fast=fast)).code

    kept = variants(fma)
    for target in set(WITHOUT_CHEAP) & set(HERE):
        assert (target, True) not in kept
        assert code(target, True) == code(target, False)
    for fast in (True, False):
        if "x86-64-v4-vnni" in HERE and ("x86-64-v4-vnni", fast) not in kept:
            assert code("x86-64-v4-vnni", fast) == code("x86-64-v4", fast)
        if "x86-64-v4-amx" in HERE and ("x86-64-v4-amx", fast) not in kept:
            assert code("x86-64-v4-amx", fast) == code("x86-64-v4-vnni", fast)
        if "zen4" in HERE and ("zen4", fast) not in kept:
            assert code("zen4", fast) == code("x86-64-v4-vnni", fast)
