"""What is measured, and the bars that results have to meet. This file holds data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """Slowdowns against torch's sgemm in the same run: what a release must keep, and what it should reach."""

    must: float
    aim: float


BF16_EXACT = "fma(a=bf16,acc=bf16,datapath=exact)"
BF16X2_EXACT = "fma(a=bf16,acc=bf16x2,datapath=exact)"

#: Every operator with its bar. None: it is measured and has no bar. amx_bf16 is emulated, since numc emits no AMX code.
OPERATORS: Mapping[str, Bar | None] = {
    "fp32": Bar(1.3, 1.0),
    "mp": Bar(1.3, 1.0),
    "bf16_1_3": Bar(1.3, 1.0),
    "bf16_1_1": Bar(3.0, 2.4),
    "bf16_1_2": Bar(5.5, 4.7),
    "bf16_2_2{3}": Bar(9, 7.2),
    "bf16_2_2{4}": Bar(10, 8),
    "bf16_3_3{6}": Bar(7.5, 6),
    "bf16_3_3{9}": Bar(10, 8.2),
    "fmac(e6m9)": Bar(5.5, 4.1),
    "fmac(e6m9n)": Bar(4, 3.3),
    "fmac(fp16)": Bar(5.5, 4.1),
    "fmac(fp8_e5m2)": Bar(5.5, 4.1),
    "mac(bf16)": Bar(5.5, 4.7),
    "fmac(bf16,chunk=8)": Bar(3.5, 2.7),
    "fmac(e6m9,chunk=8)": Bar(5.5, 4.1),
    "bfp(16,8,7)": Bar(0.7, 0.37),  # with VNNI, as the next two
    "highbfp": Bar(0.7, 0.37),
    "int8": Bar(0.6, 0.37),
    "mxfp8": Bar(1.6, 1.2),
    "mxfp4": Bar(1.6, 0.5),
    "fmac(e6m9:sr8)": Bar(6, 3.4),
    "fma(a=bf16,acc=bf16:sr8)": Bar(6, 3.4),
    "amx_bf16": Bar(1.6, 1.2),
    "avx512_bf16": Bar(1.6, 0.6),  # with the instruction; 1.2 without
    BF16_EXACT: Bar(30, 10),
    BF16X2_EXACT: Bar(30, 10),
    "fma(a=bf16x2,acc=bf16x2,datapath=exact)": None,
}

#: Matrix units of accelerators: one of each kind of additions.
UNITS: Mapping[str, Bar] = {
    "volta_fp16": Bar(9, 6),
    "ampere_bf16": Bar(9, 6),
    "ampere_tf32": Bar(9, 6),
    "hopper_fp16": Bar(9, 6),
    "hopper_bf16": Bar(9, 6),
    "hopper_e4m3": Bar(9, 6),
    "blackwell_e4m3": Bar(9, 6),
    "hopper_fp16_into_fp16": Bar(9, 6),
    "cdna1_fp16": Bar(12, 12),
    "cdna1_bf16": Bar(12, 12),
    "cdna2_fp16": Bar(4, 4),
    "cdna2_bf16_1k": Bar(4, 4),
    "cdna3_bf16": Bar(12, 12),
    "cdna3_fp8": Bar(12, 12),
}

#: The operators that whole models, and all tables but that of the operators, are measured with.
FEW = ("fp32", "mp", "bf16_1_1", "bf16_1_2", "bf16_2_2{4}", "fmac(e6m9)")

#: m, n, k: two squares, and a 3x3 convolution of 64 to 64 channels over 56 x 56 pixels as a matrix product.
GEMM_SHAPES = ((512, 512, 512), (1024, 1024, 1024), (3136, 64, 576))

SQUARES = (32, 64, 128, 256, 512, 1024, 2048)


@dataclass(frozen=True)
class Product:
    """A matrix product ``(batch, m, k) @ (batch, k, n)``. constant: if the right operand is a weight."""

    m: int
    n: int
    k: int
    batch: int = 1
    constant: bool = False

    @property
    def name(self) -> str:
        """The shape as tables show it."""
        shape = f"{self.m}x{self.n}x{self.k}"
        return (f"{self.batch} x " if self.batch > 1 else "") + shape + (", weight" if self.constant else "")


#: Small and skinny products. At inference one row is multiplied by a constant weight, in attention two activations.
PRODUCTS = (
    Product(1, 1024, 1024, constant=True),
    Product(1, 1024, 1024),
    Product(1, 1024, 4096, constant=True),
    Product(1, 1024, 4096),
    Product(128, 128, 64, batch=8),
    Product(64, 64, 64),
    Product(128, 128, 64),
    Product(8, 256, 64, constant=True),
    Product(8, 256, 64),
)


@dataclass(frozen=True)
class Conv:
    """One convolution layer, NCHW, square images and kernels."""

    name: str
    channels: int
    filters: int
    size: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    group: int = 1
    transposed: bool = False

    @property
    def padding(self) -> int:
        """The padding that keeps the size of the image at stride 1."""
        return self.dilation * (self.kernel - 1) // 2


CONVS = (
    Conv("1x1", 128, 128, 28, 1),
    Conv("3x3", 64, 64, 56, 3),
    Conv("3x3, stride 2", 64, 128, 56, 3, stride=2),
    Conv("3x3, dilation 2", 64, 64, 56, 3, dilation=2),
    Conv("3x3, 32 groups", 128, 128, 56, 3, group=32),
    Conv("3x3 depthwise", 144, 144, 56, 3, group=144),
    Conv("3x3 depthwise, stride 2", 144, 144, 56, 3, stride=2, group=144),
    Conv("7x7, stride 2", 3, 64, 224, 7, stride=2),
    Conv("4x4 transposed, stride 2", 64, 32, 28, 4, stride=2, transposed=True),
)

#: A model under an emulated operator may take this many times the operator's bar, relative to onnxruntime in fp32.
MODEL_FACTOR = 1.3
#: The bar of fp32 itself against the faster of onnxruntime and inductor: of every network, and of their geometric mean.
MODEL_FP32 = Bar(1.25, 1.0)
MODEL_OPERATORS = ("fp32", "mp", "bf16_1_1", "bf16_2_2{3}")
#: Weights in the bits of their formats: the bar of one row's product against fp32, for four bits half of its time; and
#: lanes and steps of weights that no cache holds.
PACKED: Mapping[str, float | None] = {
    **{f"fma(a=bf16,b={b},acc=fp32)": 0.5 for b in ("mxfp4", "int4(group=128)", "mx(nf4,64,scale=fp32)", "nvfp4")},
    **{f"fma(a=bf16,b={b},acc=fp32)": None for b in ("mxfp6", "mxfp8", "int8:channel", "e4m3fn")},
    **dict.fromkeys(("mp", "mxfp4", "blackwell_mxfp4", "blackwell_nvfp4"), None),
}
PACKED_SHAPES = ((4096, 4096),)
#: Operators with open widths: the operator that has those of the first choice fixed, and two choices.
OPEN_WIDTHS: Mapping[str, tuple[str, object, object]] = {
    "bfp(16,3,2..4)": ("bfp(16,3,4)", 4, 2),
    "fma(a=bfp(16,3,2..4):sr8,acc=fp32)": ("fma(a=bfp(16,3,4):sr8,acc=fp32)", 4, 2),
    "fma(a=e2..8m1..23,acc=fp32)": ("fma(a=e4m3,acc=fp32)", (4, 3), (8, 3)),
    "macs(e2..8m1..23)": ("macs(e4m3)", (4, 3), (5, 2)),
    "macs(e8m1..23)": ("macs(e8m3)", 3, 7),
}
OPEN_WIDTHS_SLOWDOWN = 1.15
#: An evaluation of a search with open widths is to be so many times faster than one that compiles its candidate.
SEARCH_SPEEDUP = 10
#: Small shapes may take this many times the bar.
SKINNY_FACTOR = 2.0
THREADS_SPEEDUP = 1.85
MEMORY_FACTOR = 1.3
COMPILE_SECONDS = {"cold": Bar(15, 5), "again": Bar(1.5, 1.5)}
STARTUP_SECONDS = {"numc run": 0.35, "C program": 0.02}
#: The bars of a training step against the faster of eager torch and inductor: for the geometric mean of all networks,
#: and for each of them.
TRAINING: Mapping[str, Bar] = {
    name: Bar(1.5 * mean, mean) for name, mean in {"fp32": 0.75, "mp": 0.75, "bf16_1_1": 1.0, "bf16_1_2": 1.5}.items()
}
#: The networks of STEPS whose steps run in a process of their own, and for each arithmetic the bar of its peak memory
#: against that of eager torch, both beyond what the imports take.
PROCESSES = ("ResNet-18", "ConvNeXt-T", "transformer", "LSTM")
STEP_MEMORY: Mapping[str, float | None] = {"fp32": 1, "mp": 0.65, "hfp8": 0.5, "highbfp": None}
#: The same for the networks of LARGE_STEPS.
LARGE_STEP_MEMORY: Mapping[str, float | None] = {"fp32": 1, "mp": 0.65, "hfp8": 0.5, "midbfp": 0.5}
#: The bar of a generated token's time against that of eager torch.
GENERATION: Mapping[str, float] = {"fp32": 1, "bf16_1_1": 2}
FIRST_STEP_SECONDS = 60
#: The threads on which operations side by side are simulated.
STREAM_THREADS = (2, 16, 64)
#: The batches with which networks are simulated on as many.
SCALING_BATCHES = (1, 8)
#: What TrainBF (2023) reports of its streams on two GPUs: the gain in speed, the memory of a version without a limit
#: over its own, and how long an A100 idles in bf16 without streams.
TRAINBF_STREAMS = {"speedup": (1.13, 1.29), "memory": (0.6532, 0.7417), "idle": 0.472}
SWITCH_SECONDS = 1e-3
STATISTICS_OPERATORS = ("bf16_1_1", "fp32")
STATISTICS_SAMPLE, STATISTICS_EVERY = "1/16", 100
#: The share of a training's time that statistics of every STATISTICS_EVERY-th step should stay below.
STATISTICS_SHARE = 0.02


def model_bar(operator: str) -> Bar | None:
    """Return the bar of a whole model against onnxruntime's fp32."""
    if operator == "fp32":
        return MODEL_FP32
    bar = OPERATORS[operator]
    return bar and Bar(bar.must * MODEL_FACTOR, bar.aim * MODEL_FACTOR)
