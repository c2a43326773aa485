"""The table of schemes, by the name that `quantization_config` of config.json has for them."""

from __future__ import annotations

from numc.frontends.pytorch.quantised import (
    awq,
    bitsandbytes,
    compressed_tensors,
    fp8,
    gptq,
    mxfp4,
    torchao,
)
from numc.frontends.pytorch.quantised.scheme import Scheme

SCHEMES: dict[str, Scheme] = {
    "awq": awq.SCHEME,
    "bitsandbytes": bitsandbytes.SCHEME,
    "compressed-tensors": compressed_tensors.SCHEME,
    "fp8": fp8.SCHEME,
    "gptq": gptq.SCHEME,
    "mxfp4": mxfp4.SCHEME,
    "torchao": torchao.SCHEME,
}
