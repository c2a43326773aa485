"""Weights in program files as places in a list of values, perhaps times a number for each group."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import numc
from numc.compiler.programs.listed_weights import listed
from numc.numerics.formats import FORMATS
from numc.numerics.grammar import parse_any_conversion
from numc.numerics.groups import GroupConversion
from numc.runtime.storage import Storage
from numc.support.errors import NumcError
from tiers import by_default

TEXTS = [
    *("nvfp4", "mx(nf4,64,scale=fp32)", "mx(int4,32,scale=fp16):rtz", "mx(e4m3fn,128,scale=fp32)", "int4", "int8:rup"),
    *("mx(int8,7,scale=fp32)", "mx(e2m1fn,16,scale=e4m3fn)", "posit8", "nf4", "e2m1fn", "e4m3fnuz", "fixed(1,6)"),
    "binary8p3",
]


@pytest.mark.parametrize("text", TEXTS)
def test_every_bit_comes_back(text: str) -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((5, 70)) * np.exp2(rng.integers(-9, 9, (5, 70)))).astype(np.float32)
    x[1, :20], x[2, 3] = 0, -0.0
    to = parse_any_conversion(text)
    if isinstance(to, GroupConversion) and to.format.group is not None:
        x[3, 5] = np.nan
    values = numc.round(x, text)
    encoding, stored = listed(values, to.format)
    storage = Storage(encoding, (1, *x.shape), stored.size, x.size)
    assert np.array_equal(storage.expand(stored).view(np.uint32), values.view(np.uint32).reshape(-1))
    assert stored.nbytes < 0.6 * x.nbytes + 4 * 256


def test_values_that_are_no_products() -> None:
    x = np.random.default_rng(0).standard_normal((2, 32), np.float32)
    with pytest.raises(NumcError, match="values are no elements times a number"):
        listed(x, parse_any_conversion("nvfp4").format)
    with pytest.raises(NumcError, match="'posit16' is no format that the runtime reads"):
        listed(x, FORMATS["posit16"])


def test_damaged_records() -> None:
    encoding, stored = listed(numc.round(np.ones((2, 32), np.float32), "nvfp4"), parse_any_conversion("nvfp4").format)
    for wrong in ({"significand_bits": 9}, {"exponent_bits": 8}, {"group": 0}):
        with pytest.raises(NumcError, match="a weight is packed in no format"):
            Storage(replace(encoding, **wrong), (1, 2, 32), stored.size, 64).expand(stored)


@pytest.mark.parametrize("weights", by_default(["nvfp4", "int8:channel", "posit8"], ["nvfp4"]))
def test_program_files(weights: str, tmp_path: object) -> None:
    torch.manual_seed(0)
    model, x = torch.nn.Linear(128, 40).eval(), torch.randn(3, 128)
    plain, packed = (
        numc.compile(model, (x,), fma=f"fma(a=bf16,b={weights},acc=fp32)", pack_weights=packs)
        for packs in (False, True)
    )
    sizes = []
    for n, program in enumerate((plain, packed)):
        program.save(f"{tmp_path}/{n}.numc")
        with open(f"{tmp_path}/{n}.numc", "rb") as file:
            sizes.append(len(file.read()))
    assert sizes[1] < sizes[0] - 2 * 128 * 40
    loaded = numc.load(f"{tmp_path}/1.numc")
    assert np.array_equal(np.asarray(loaded(x.numpy())), np.asarray(plain(x.numpy())))
