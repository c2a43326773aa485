"""Kernels compiled for GPUs that are not here: that they compile, and what their inner loops are made of."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

import numc
from benchmarks.models import graphs
from benchmarks.sections.instructions import MATRIX, disassembled, machine_block
from emulated_gpu import NEEDS
from numc.frontends.load import load_file
from numc.support.errors import NumcError
from tiers import one_in

triton = pytest.importorskip("triton", reason=NEEDS)
from numc.runtime.gpu import emulated_gluon, gpu_instructions  # noqa: E402
from numc.runtime.gpu.gpu_program import load_text  # noqa: E402
from numc.runtime.gpu.machine_code import ARCHITECTURES, Compiled, Launch, compile_launch, counted  # noqa: E402

GOLDEN = Path(__file__).with_name("inner_loops.json")
CNN = Path(__file__).parents[2] / "examples" / "digits" / "cnn.onnx"
#: All instructions of the inner loop over its multiply-adds, on sm_90: what an operator is to stay below.
MOST = {
    "fp32": 1.1,
    "mp": 1.1,
    "bf16_1_1": 3.2,
    "bf16_1_2": 6.3,
    "bf16_2_2{3}": 9.5,
    "fmac(e6m9)": 5.3,
    "hopper_bf16": 7.6,
    "mxfp8": 1.2,
    "highbfp": 1.2,
    "int8": 1.6,
    "nvfp4": 1.4,
    "blackwell_mxfp8": 10.5,
}
#: Those whose exact code, which a guard leaves for few tiles, does not fit into registers, and whose loop does not.
SPILLING = ("hopper_bf16", "mxfp8", "blackwell_mxfp8")
SPILLING_LOOPS = ("blackwell_mxfp8",)
FORBIDDEN = (".ftz", "div.approx", "div.full", "sqrt.approx", "rcp.approx", "ex2.approx")


class Product(torch.nn.Module):
    """Two factors as they come."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def _launches(program: object, *inputs: object) -> tuple[ModuleType, list[Launch]]:
    """The kernels that a run launches, each once, and the module that has them."""
    recorded: list[tuple[object, tuple[object, ...], dict[str, object]]] = []
    program.to("cpu").run(inputs, launches=recorded)  # type: ignore[attr-defined]
    text = program.text  # type: ignore[attr-defined]
    return load_text(text, emulated=False), list(dict.fromkeys(Launch.of(*each) for each in recorded))


def _check(compiled: Compiled) -> None:
    assert not [text for text in FORBIDDEN if text in compiled.assembly]
    if not compiled.architecture.startswith("sm_"):  # no mode that replaces subnormal numbers by zeros
        assert ".amdhsa_float_denorm_mode_32 3" in compiled.assembly
        assert ".amdhsa_float_denorm_mode_16_64 3" in compiled.assembly


def _inner_loop(fma: str, compiled: Compiled, constants: dict[str, object]) -> dict[str, float]:
    """What one multiply-add takes in the loop that reads shared memory."""
    loads = ("LDS", "ds_read_b128", "ds_read2_b64", "ds_read_b64", "ds_read_b32")
    loop = max((counted(names) for names in compiled.loops()), key=lambda found: sum(found[name] for name in loads))
    assert sum(loop[name] for name in loads)
    spills = [name for name in loop if name.startswith(("LDL", "STL", "scratch", "buffer"))]
    assert not spills or fma in SPILLING_LOOPS or compiled.architecture == "sm_80", "a spill in the loop"
    threads = 4 * ARCHITECTURES[compiled.architecture].warp_size
    steps = int(constants["ROWS"]) * int(constants["LANES"]) * int(constants["DEEP"]) / threads  # type: ignore[call-overload]
    return {
        "instructions": round(sum(loop.values()) / steps, 3),
        "loads": round(sum(loop[name] for name in loads) / steps, 3),
        "registers": compiled.registers,
        "spills": compiled.spills,
    }


@pytest.mark.all
@pytest.mark.parametrize("fma", one_in(99, MOST, "bf16_1_1", "bf16_2_2{3}", "highbfp"))
def test_inner_loops(fma: str, request: pytest.FixtureRequest) -> None:
    inputs = torch.randn(256, 64), torch.randn(64, 128)
    module, launches = _launches(numc.compile(Product(), inputs, fma=fma, target="cuda"), *inputs)
    (product,) = (each for each in launches if "ROWS" in dict(each.constants))
    found = {}
    for architecture in ("sm_80", "sm_90", "gfx942"):
        compiled = compile_launch(module, product, architecture)
        _check(compiled)
        found[architecture] = _inner_loop(fma, compiled, dict(product.constants))
    assert found["sm_90"]["instructions"] <= MOST[fma]
    if fma not in SPILLING:
        assert (found["sm_90"]["spills"], found["gfx942"]["spills"]) == (0, 0)
    known = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if request.config.getoption("--update-golden"):
        known = {**known, "triton": triton.__version__, fma: found}
        GOLDEN.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
    if known["triton"] != triton.__version__:
        pytest.skip(f"the golden counts are those of Triton {known['triton']}, this is {triton.__version__}")
    assert found == known[fma]


@pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump")
def test_a_fused_unit_takes_less_than_on_a_processor(tmp_path: Path) -> None:
    product = load_file(graphs.matmul(MATRIX, str(tmp_path))[0])
    code = disassembled(product, "hopper_bf16", "x86-64-v4", str(tmp_path))
    (function,) = re.findall(r"<(numc_hopper_bf16_8x32\S+_fast8)>:\n", code)
    processor = machine_block(code, function, length=16, accumulators=8 * 32 // 16)
    assert json.loads(GOLDEN.read_text())["hopper_bf16"]["sm_90"]["instructions"] < processor
    page = (Path(__file__).parents[2] / "docs" / "targets.md").read_text()
    assert f"takes {processor:.1f} for each multiply-add of a vector" in page


@pytest.mark.parametrize(
    "architecture",
    [pytest.param(name, marks=() if name == "sm_90" else pytest.mark.slow) for name in ARCHITECTURES],
)
@pytest.mark.all
def test_every_kernel_of_a_model_compiles(architecture: str) -> None:
    program = numc.compile(CNN, fma="bf16_1_1", ops="bf16", target="cuda")
    module, launches = _launches(program, np.ones((130, 64), np.float32))
    assert len(launches) > 20
    for launch in launches:
        compiled = compile_launch(module, launch, architecture)
        _check(compiled)
        assert (launch.kernel, compiled.spills) == (launch.kernel, 0)


class Functions(torch.nn.Module):
    """Operations whose instructions could be approximate, or replace subnormal numbers by zeros."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        whole = torch.floor(x), torch.ceil(x), torch.trunc(x), torch.round(x), torch.fmod(x, 0.3)
        roots = torch.sqrt(x), torch.rsqrt(x), x.double().sqrt(), 1 / x
        return (*whole, *roots, x.exp(), x.tanh(), x.erf(), x.sin(), x.log(), x.double().floor(), x.to(torch.int32))


@pytest.mark.slow
@pytest.mark.parametrize("fma", ["fp32", pytest.param("cdna3_bf16", marks=pytest.mark.slow)])
def test_no_instruction_is_approximate(fma: str) -> None:
    x = torch.rand(17)
    module, launches = _launches(numc.compile(Functions(), (x,), target="cuda"), x)
    inputs = torch.rand(16, 16), torch.rand(16, 16)
    more, products = _launches(numc.compile(Product(), inputs, fma=fma, target="cuda"), *inputs)
    for where, each in ((module, launches), (more, products)):
        for launch in each:
            compiled = compile_launch(where, launch, "sm_90")
            _check(compiled)
            assert compiled.spills == 0 or "ROWS" in dict(launch.constants)


def test_what_is_no_instruction_has_the_same_bits() -> None:
    """Of `at_least`, what GPUs without the instruction execute, beside the emulation."""
    elsewhere = SimpleNamespace(target_info=SimpleNamespace(cuda_capability_geq=lambda *_: False))
    function = FunctionType(gpu_instructions.at_least.fn.__code__, {"gl": emulated_gluon, "tl": elsewhere})
    bits = np.arange(0, 0x7F800001, 0x1001, dtype=np.int32)
    x = emulated_gluon.Tile(np.concatenate([bits, bits | -0x80000000]).view(np.float32))
    for least in (1e-45, 1.5 * 2.0**-30, 3e38):
        tile = emulated_gluon.Tile(np.float32(least))
        results = (each(x, tile).data.view(np.uint32) for each in (function, emulated_gluon.at_least))
        np.testing.assert_array_equal(*results)


def test_an_unknown_architecture() -> None:
    launch = Launch("k0", (), (), ())
    with pytest.raises(NumcError, match="unknown architecture 'sm_1': want sm_80, sm_90, sm_100, gfx942"):
        compile_launch(ModuleType("empty"), launch, "sm_1")


#: Instructions on float32 lanes that a GPU issues, in 10^12 a second, and whose counts stand for it.
ISSUED = {"A100": ("sm_80", 9.75), "H100": ("sm_90", 33.5), "RTX 4090": ("sm_90", 41.0), "MI300X": ("gfx942", 81.7 / 2)}


def test_the_page_has_what_follows_from_them() -> None:
    page = (Path(__file__).parents[2] / "docs" / "targets.md").read_text()
    golden = json.loads(GOLDEN.read_text())
    for fma in ("fp32", "bf16_1_1", "bf16_1_2", "bf16_2_2{3}", "fmac(e6m9)", "hopper_bf16"):
        cells = [f"{rate / golden[fma][name]['instructions']:.1f}" for name, rate in ISSUED.values()]
        assert f"| `{fma}` | {' | '.join(cells)} |" in page


def test_the_page_has_these_counts() -> None:
    page = (Path(__file__).parents[2] / "docs" / "targets.md").read_text()
    of_loops = " and ".join(f"`{name}`" for name in SPILLING_LOOPS)
    of_code = " and ".join(f"`{name}`" for name in SPILLING if name not in SPILLING_LOOPS)
    assert f"but some of the loop of {of_loops}, and of the exact code of {of_code}, on `sm_90`" in page
    for fma, counts in json.loads(GOLDEN.read_text()).items():
        if fma == "triton":
            assert f"Triton {counts} makes" in page
            continue
        cells = [f"{counts[a]['instructions']:.2f} | {counts[a]['registers']}" for a in ("sm_90", "gfx942")]
        assert f"| `{fma}` | {' | '.join(cells)} |" in page
