"""The software models of instructions against the instructions themselves, where this processor has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import arithmetic_vectorised as reference
import numc
from numc.compiler.arrays.arrays import matmul
from numc.frontends.parse import parse_module
from numc.runtime.library import cpu_features, request_amx
from tiers import one_in, pairs

LANES = 16
DPBF16 = """
llvm.func @main(%a: !llvm.ptr, %b: !llvm.ptr, %c: !llvm.ptr, %n: i64) {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  llvm.br ^loop(%zero : i64)
^loop(%i: i64):
  %more = llvm.icmp "slt" %i, %n : i64
  llvm.cond_br %more, ^body, ^end
^body:
  %pa = llvm.getelementptr %a[%i] : (!llvm.ptr, i64) -> !llvm.ptr, vector<16xi32>
  %pb = llvm.getelementptr %b[%i] : (!llvm.ptr, i64) -> !llvm.ptr, vector<16xi32>
  %pc = llvm.getelementptr %c[%i] : (!llvm.ptr, i64) -> !llvm.ptr, vector<16xf32>
  %va = llvm.load %pa {alignment = 4 : i64} : !llvm.ptr -> vector<32xbf16>
  %vb = llvm.load %pb {alignment = 4 : i64} : !llvm.ptr -> vector<32xbf16>
  %vc = llvm.load %pc {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
  %r = llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"(%vc, %va, %vb)
    : (vector<16xf32>, vector<32xbf16>, vector<32xbf16>) -> vector<16xf32>
  llvm.store %r, %pc {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr
  %next = llvm.add %i, %one : i64
  llvm.br ^loop(%next : i64)
^end:
  llvm.return
}"""


@pytest.mark.skipif("avx512_bf16" not in cpu_features(), reason="this processor has no AVX512-BF16")
def test_vdpbf16ps() -> None:
    import ctypes

    from torch_mlir import ir
    from torch_mlir.execution_engine import ExecutionEngine

    count = 1 << 16
    a, b = (reference.round(reference.samples(count * LANES * 2, seed), "bf16").reshape(-1, 2) for seed in (1, 2))
    start = reference.samples(count * LANES, 3)
    packed = [np.ascontiguousarray((x.view(np.uint32) >> 16).astype(np.uint16)) for x in (a, b)]
    got = start.copy()
    module = parse_module(DPBF16, "<test>")
    with module.context, ir.Location.unknown():
        engine = ExecutionEngine(module, opt_level=2)
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.raw_lookup("main"))
        values = [ctypes.c_void_p(x.ctypes.data) for x in (*packed, got)] + [ctypes.c_int64(count)]
        call((ctypes.c_void_p * 4)(*(ctypes.addressof(v) for v in values)))
    # One dot of k = 2 from each accumulator: the kernel runs it as a contraction with two reduction steps.
    want = np.concatenate(
        [_dots(a[i : i + 4096], b[i : i + 4096], start[i : i + 4096]) for i in range(0, len(start), 4096)]
    )
    assert (found := reference.first_mismatch(got, want, a[:, 0], b[:, 0], a[:, 1], b[:, 1], start)) is None, found


def _dots(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    from numc.compiler.arrays.arrays import _batch_dot

    return np.asarray(_batch_dot("avx512_bf16", False, fast=False)(a, b, c))


F32 = np.ndarray[Any, np.dtype[np.float32]]
Product = Callable[[F32, F32, str, bool], Any]


def _arguments(a: F32, b: F32, fma: str, fast: bool) -> Any:
    return matmul(a, b, fma=fma, fast=fast)


def _adjacent_k(a: F32, b: F32, fma: str, fast: bool) -> Any:
    """The lanes are read along k, as those of attention are."""
    return _compiled(lambda x, y: x @ y.T, (a, np.ascontiguousarray(b.T)), fma, fast)


def _adjacent_rows(a: F32, b: F32, fma: str, fast: bool) -> Any:
    """The rows are read step by step, as those of gradients of weights are."""
    return _compiled(lambda x, y: x.T @ y, (np.ascontiguousarray(a.T), b), fma, fast)


def _weight_of_lanes(a: F32, b: F32, fma: str, fast: bool) -> Any:
    y = torch.from_numpy(b)
    return _compiled(lambda x: x @ y, (a,), fma, fast)


def _weight_of_rows(a: F32, b: F32, fma: str, fast: bool) -> Any:
    x = torch.from_numpy(a)
    return _compiled(lambda y: x @ y, (b,), fma, fast)


def _bfloat16(a: F32, b: F32, fma: str, fast: bool) -> Any:
    """Operands that lie in memory as bfloat16."""
    return _compiled(lambda x, y: (x.bfloat16() @ y.bfloat16()).float(), (a, b), fma, fast)


def _compiled(function: Callable[..., torch.Tensor], inputs: tuple[F32, ...], fma: str, fast: bool) -> Any:
    class Model(torch.nn.Module):
        def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
            return function(*tensors)

    program = numc.compile(Model(), tuple(map(torch.from_numpy, inputs)), fma=fma, fast=fast)
    return program(*inputs)


PRODUCTS = [_arguments, _adjacent_k, _adjacent_rows, _weight_of_lanes, _weight_of_rows, _bfloat16]


CASES = [
    *(("avx512_bf16", sizes) for sizes in ((19, 301, 45), (3, 2, 70))),
    *(("amx_bf16", sizes) for sizes in ((19, 301, 45), (50, 49, 70), (33, 1040, 7))),
]


@pytest.mark.parametrize(
    ("product", "case"), one_in(2, pairs(PRODUCTS, CASES, lambda product, _: product is _arguments))
)
def test_with_and_without_the_instruction(product: Product, case: tuple[str, tuple[int, int, int]]) -> None:
    """Operands of every class, packed in all ways; the payload of a NaN can be in the bits that bfloat16 lacks."""
    fma, (m, k, n) = case
    a, b = reference.samples(m * k, 4).reshape(m, k), reference.samples(k * n, 5).reshape(k, n)
    b[:, ::2], a[1::2] = 1.5, np.random.default_rng(0).standard_normal(a[1::2].shape)  # some results are numbers
    a[1, 1] = np.array(0x7F800001, np.uint32).view(np.float32)
    got, want = (np.asarray(product(a, b, fma, fast)) for fast in (True, False))
    assert np.isnan(got[1]).all()
    assert not np.isnan(got).all()
    assert (found := reference.first_mismatch(got, want)) is None, found


@pytest.mark.parametrize("depth", [1, 2, 15, 16, 17, 31, 33])
def test_amx_bf16_keeps_the_sign_of_zeros(depth: int) -> None:
    """What fills a register behind the last step must not turn sums of -0, which tiny negative products become, to +0.

    The accumulators are -0 too: a single +0 among what is added to them would show.
    """
    a = np.full((40, depth), 2.0**-100, np.float32)
    b = np.full((depth, 33), -(2.0**-100), np.float32)
    c = np.full((40, 33), -0.0, np.float32)
    b[:, 1] = -b[:, 1]
    got, want = (matmul(a, b, c, fma="amx_bf16", fast=fast) for fast in (True, False))
    assert (found := reference.first_mismatch(got, want)) is None, found
    # An odd number of steps is one more of +0.
    assert np.signbit(want[:, 0]).all() == (depth % 2 == 0)
    assert not np.signbit(want[:, 1]).any()


@pytest.mark.skipif("amx_bf16" not in cpu_features() or not request_amx(), reason="this processor has no AMX-BF16")
def test_tdpbf16ps() -> None:
    """One tile product: C (16 x 16) += A (16 x 32) B (32 x 16)."""
    from numc.support.errors import CompilerBug

    a, b, c = (reference.samples(n, s) for n, s in ((512, 1), (512, 2), (256, 3)))
    a, b = reference.round(a, "bf16").reshape(16, 32), reference.round(b, "bf16").reshape(32, 16)
    try:
        got = _tile_product(a, b, c.reshape(16, 16))
    except CompilerBug as bug:  # pragma: no cover
        pytest.fail(str(bug))
    want = numc.matmul(a, b, c.reshape(16, 16), fma="amx_bf16", fast=False)
    assert (found := reference.first_mismatch(got, want)) is None, found


TILES = """
func.func @main(%a: memref<16x32xbf16>, %b: memref<16x32xbf16>, %c: memref<16x16xf32>)
    attributes {llvm.emit_c_interface} {
  %i = arith.constant 0 : index
  %x = x86.amx.tile_load %a[%i, %i] : memref<16x32xbf16> into !x86.amx.tile<16x32xbf16>
  %y = x86.amx.tile_load %b[%i, %i] : memref<16x32xbf16> into !x86.amx.tile<16x32xbf16>
  %z = x86.amx.tile_load %c[%i, %i] : memref<16x16xf32> into !x86.amx.tile<16x16xf32>
  %r = x86.amx.tile_mulf %x, %y, %z : !x86.amx.tile<16x32xbf16>, !x86.amx.tile<16x32xbf16>, !x86.amx.tile<16x16xf32>
  x86.amx.tile_store %c[%i, %i], %r : memref<16x16xf32>, !x86.amx.tile<16x16xf32>
  return
}"""


def _tile_product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    import ctypes

    from torch_mlir import ir
    from torch_mlir.execution_engine import ExecutionEngine
    from torch_mlir.passmanager import PassManager

    pairs = b.reshape(16, 2, 16).transpose(0, 2, 1).reshape(16, 32)  # the layout TDPBF16PS wants: k in pairs
    arrays = [np.ascontiguousarray((x.view(np.uint32) >> 16).astype(np.uint16)) for x in (a, pairs)] + [c.copy()]
    module = parse_module(TILES, "<test>")
    with module.context, ir.Location.unknown():
        PassManager.parse(
            "builtin.module(convert-vector-to-llvm{enable-x86=1},finalize-memref-to-llvm,convert-func-to-llvm,"
            "convert-arith-to-llvm,reconcile-unrealized-casts)"
        ).run(module.operation)
        engine = ExecutionEngine(module, opt_level=2)
        descriptors = []
        for x in arrays:
            words = (ctypes.c_int64 * 7)(x.ctypes.data, x.ctypes.data, 0, *x.shape, x.shape[1], 1)
            descriptors.append(ctypes.pointer(words))
        engine.invoke("main", *(ctypes.pointer(d) for d in descriptors))
    return arrays[2]
