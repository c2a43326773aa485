"""Modules that torchao has converted, and torch's scaled products: the operator in their contractions, else as eager.

The definition is eager torch and torchao with each contraction of floats replaced by `numc.matmul`: what they multiply,
where scales are applied and where results are rounded. Of torch._scaled_mm, scales come after the sum.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tiers import pairs

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import numc  # noqa: E402
from torch_modules import Calls  # noqa: E402

aten = torch.ops.aten
EIGHT = torch.float8_e4m3fn


def product(one: Any, other: Any, fma: str) -> Any:
    """A product of matrices as float32, by the operator."""
    value = numc.matmul(*(np.ascontiguousarray(x.float().numpy()) for x in (one, other)), fma=fma)
    return torch.from_numpy(value)


def scaled(one: Any, other: Any, scale: Any, other_scale: Any, bias: Any, dtype: Any, fma: str) -> Any:
    """torch._scaled_mm: the product of what is stored, times the scales of rows, then of columns, in float32."""
    value = product(one, other, fma) * scale * other_scale
    value = value if bias is None else value + bias.float()
    return (value.clamp(-448, 448) if dtype == EIGHT else value).to(dtype)


class InOperator(TorchDispatchMode):
    """Eager torch whose products of matrices of floats are those of an operator."""

    def __init__(self, fma: str) -> None:
        super().__init__()
        self.fma = fma

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(kind not in (torch.Tensor, torch.nn.Parameter) for kind in types):
            return NotImplemented  # the operations that a subclass consists of come here, too
        if func is aten.mm.default:
            return product(*args, self.fma).to(args[0].dtype)
        if func is aten.addmm.default:
            bias, one, other = args
            return (product(one, other, self.fma) + bias.float()).to(one.dtype)
        if func is aten._scaled_mm.default:
            one, other, scale, other_scale = args[:4]
            rest = dict(zip(("bias", "scale_result", "out_dtype"), args[4:], strict=False)) | kwargs
            return scaled(one, other, scale, other_scale, rest.get("bias"), rest["out_dtype"], self.fma)
        return func(*args, **kwargs)


@pytest.mark.parametrize(("fma", "dtype"), pairs(["fp32", "mp", "hopper_e4m3"], [torch.float32, EIGHT]))
def test_scaled_products_multiply_what_is_stored(fma: str, dtype: Any) -> None:
    torch.manual_seed(0)
    a, b = (30 * torch.randn(6, 64)).to(EIGHT), torch.randn(16, 64).to(EIGHT).t()
    bias = torch.randn(16)
    for scales in ((torch.tensor(0.37), torch.tensor(1.7)), (torch.rand(6, 1), torch.rand(1, 16))):
        inputs = (a, b, *scales, bias)
        compute = Calls(lambda a, b, one, other, bias: torch._scaled_mm(a, b, one, other, bias=bias, out_dtype=dtype))
        got = numc.compile(compute, inputs, fma=fma)(*inputs)
        assert torch.equal(got, scaled(a, b, *scales, bias, dtype, fma))


def test_scales_that_are_powers_of_two_give_the_bits_of_eager_torch() -> None:
    torch.manual_seed(0)
    a, b = (torch.randint(-4, 5, (rows, 32)).to(EIGHT) for rows in (6, 16))
    inputs = a, b.t(), torch.tensor(0.25), torch.tensor(8.0)
    compute = Calls(lambda a, b, one, other: torch._scaled_mm(a, b, one, other, out_dtype=torch.bfloat16))
    want = compute(*inputs)
    assert torch.equal(numc.compile(compute, inputs)(*inputs), want)
    assert torch.equal(torch.compile(compute, backend="numc", fullgraph=True)(*inputs), want)


def test_scaled_products_of_groups() -> None:
    """Eager torch has none on the CPU."""
    torch.manual_seed(0)
    rows, matrices = torch.randn(16, 32).to(EIGHT), torch.randn(4, 16, 32).to(EIGHT)
    scale, other = torch.rand(16), torch.rand(4, 16)
    ends = torch.tensor([0, 5, 5, 13], dtype=torch.int32)

    def grouped(rows: Any, matrices: Any, scale: Any, other: Any, ends: Any) -> Any:
        across = matrices.transpose(1, 2)
        return torch._scaled_grouped_mm(rows, across, scale, other, offs=ends, out_dtype=torch.bfloat16)

    inputs = (rows, matrices, scale, other, ends)
    got = numc.compile(Calls(grouped), inputs, fma="mp")(*inputs)
    for group, (start, end) in enumerate([(0, 0), (0, 5), (5, 5), (5, 13)]):
        if end > start:
            of_rows = scale[start:end, None]
            want = scaled(rows[start:end], matrices[group].t(), of_rows, other[group], None, torch.bfloat16, "mp")
            assert torch.equal(got[start:end], want)
    assert not got[13:].any()


def test_other_scales_are_refused_by_name() -> None:
    kinds = torch.nn.functional.ScalingType
    a, b, one = torch.ones(32, 128).to(EIGHT), torch.ones(128, 128).to(EIGHT), torch.ones(1)

    def of_blocks(a: Any, b: Any) -> Any:
        scales = torch.ones(1, 32).t(), kinds.BlockWise1x128, torch.ones(1, 4).t(), kinds.BlockWise128x128
        return torch.nn.functional.scaled_mm(a, b.t(), *scales, output_dtype=torch.bfloat16)

    def of_results(a: Any, b: Any) -> Any:
        return torch._scaled_mm(a, b.t(), one, one, scale_result=one)

    for compute, name in ((of_blocks, "_scaled_mm_v2"), (of_results, "_scaled_mm")):
        with pytest.raises(
            numc.NumcError, match="other scales than one float32 for each tensor, or for each row and "
        ) as e:
            numc.compile(Calls(compute), (a, b))
        assert f"aten.{name}.default" in str(e.value)


def test_bits_of_numbers() -> None:
    x = torch.tensor([0.0, -0.0, 1.5, float("inf"), 1e-45, -3e38])
    whole = torch.tensor([0, -1, 1 << 30, 1, 5, 7], dtype=torch.int32)

    def view(x: Any, whole: Any) -> Any:
        return x.view(torch.int32) + 1, whole.view(torch.float32), whole.view(torch.int32)

    for got, want in zip(numc.compile(Calls(view), (x, whole))(x, whole).values(), view(x, whole), strict=True):
        assert torch.equal(got.view(torch.int32), want.view(torch.int32))


def _configs() -> dict[str, Callable[[], Any]]:
    """The configurations of torchao.quantization.quantize_ that run on a CPU, by a name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torchao.prototype.mx_formats as mx
        import torchao.quantization as q
        from torchao.quantization.quantize_.common import KernelPreference

    four, emulated = torch.float4_e2m1fn_x2, KernelPreference.EMULATED

    def mxfp(element: Any) -> Any:
        return mx.MXDynamicActivationMXWeightConfig(
            activation_dtype=element, weight_dtype=element, kernel_preference=emulated
        )

    return {
        "int8 weights": q.Int8WeightOnlyConfig,
        "int8 weights of groups": lambda: q.Int8WeightOnlyConfig(granularity=q.PerGroup(32)),
        "int8": q.Int8DynamicActivationInt8WeightConfig,
        "int8 with zero points": lambda: q.Int8DynamicActivationInt8WeightConfig(
            act_mapping_type=q.MappingType.ASYMMETRIC
        ),
        "int8 and int4": lambda: q.Int8DynamicActivationIntxWeightConfig(
            weight_dtype=torch.int4, weight_granularity=q.PerGroup(32)
        ),
        "int4 weights": lambda: q.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=q.PerGroup(32)),
        "float8 weights": q.Float8WeightOnlyConfig,
        "mxfp8": lambda: mxfp(EIGHT),
        "mxfp4": lambda: mxfp(four),
        "nvfp4 weights": mx.NVFP4WeightOnlyConfig,
    }


def model(dtype: Any) -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 32)).to(dtype)


QUANTISED = ["int8 weights", "int8 weights of groups", "int8", "int8 with zero points", "int8 and int4", "int4 weights"]
QUANTISED += ["float8 weights", "mxfp8", "mxfp4", "nvfp4 weights"]
IN_ALL = {"int8", "int4 weights"}
TIERS = [pytest.param(name, marks=pytest.mark.all if name in IN_ALL else pytest.mark.slow) for name in QUANTISED]


@pytest.mark.parametrize("name", TIERS)
def test_quantised_modules(name: str) -> None:
    """By numc.compile, by torch.export and under torch.compile: the bits of torchao, with the operator's products."""
    pytest.importorskip("torchao")
    from torchao.quantization import quantize_

    configs = _configs()
    assert list(configs) == QUANTISED
    converted = model(torch.bfloat16)
    quantize_(converted, configs[name]())
    x = torch.randn(8, 64, dtype=torch.bfloat16)
    fma = "bf16_1_1"
    with torch.no_grad(), InOperator(fma):
        want = converted(x)
    with torch.no_grad():
        assert not torch.equal(want, converted(x)) or name in ("int8", "int8 with zero points")  # of integers
        exported = torch.export.export(converted, (x,))
        under = torch.compile(converted, backend="numc", options={"fma": fma})(x)
    for got in (numc.compile(converted, (x,), fma=fma)(x), numc.compile(exported, fma=fma)(x), under):
        assert torch.equal(got, want)


def test_products_of_bytes() -> None:
    """torch._int_mm of bytes with and without a sign: torchao chooses by the instructions of the processor."""

    class Bytes(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return torch._int_mm(a, b)

    generator = torch.Generator().manual_seed(0)
    b = torch.randint(-128, 128, (40, 16), dtype=torch.int8, generator=generator)
    for dtype, low, high in ((torch.uint8, 0, 256), (torch.int8, -128, 128)):
        a = torch.randint(low, high, (24, 40), dtype=dtype, generator=generator)
        assert torch.equal(numc.compile(Bytes(), (a, b))(a, b), a.int() @ b.int())


FLOAT8 = ["tensorwise", "rowwise", "rowwise_with_gw_hp"]


@pytest.mark.parametrize(
    "recipe", [pytest.param(name, marks=pytest.mark.all if name == "rowwise" else pytest.mark.slow) for name in FLOAT8]
)
def test_float8_training(recipe: str) -> None:
    pytest.importorskip("torchao")
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    torch._dynamo.reset()
    converted = model(torch.bfloat16)
    convert_to_float8_training(converted, config=Float8LinearConfig.from_recipe_name(recipe))
    x = torch.randn(16, 64, dtype=torch.bfloat16)
    fma = "bf16_1_2"

    def gradients(forward: Any) -> list[Any]:
        converted.zero_grad()
        value = forward(x)
        value.float().square().sum().backward()
        return [value.detach(), *(p.grad.clone() for p in converted.parameters())]

    with InOperator(fma):
        want = gradients(converted)
    got = gradients(torch.compile(converted, backend="numc", options={"fma": fma}))
    for one, other in zip(got, want, strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(want[0], converted(x).detach())
    assert torch.equal(numc.compile(converted, (x,), fma=fma)(x), want[0])


@pytest.mark.all
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_what_the_quantiser_of_exported_programs_makes(is_dynamic: bool) -> None:
    """Scales and zero points that are known, or chosen by the range of a tensor in a run."""
    pytest.importorskip("torchao")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

        torch.manual_seed(0)
        plain = torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.ReLU(), torch.nn.Linear(40, 8)).eval()
        x = torch.randn(6, 24)
        quantizer = x86.X86InductorQuantizer()
        quantizer.set_global(x86.get_default_x86_inductor_quantization_config(is_dynamic=is_dynamic))
        prepared = prepare_pt2e(torch.export.export(plain, (x,), strict=True).module(), quantizer)
        prepared(x)
        converted = convert_pt2e(prepared)
    targets = {str(each.target) for each in converted.graph.nodes}
    assert any("choose_qparams" in target for target in targets) == is_dynamic
    assert any("dequantize_per_channel" in target for target in targets)
    for rows in (x, x * 3, torch.zeros(6, 24)):
        with torch.no_grad(), InOperator("mp"):
            want = converted(rows)
        assert torch.equal(numc.compile(converted, (rows,), fma="mp")(rows), want)
