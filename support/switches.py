"""The environment variable NUMC_DISABLE, which switches optimisations off: ``NUMC_DISABLE=fast,fuse-elementwise``.

Switching them off serves to find the cause of a difference. No bit of a result may depend on any of them.
"""

from __future__ import annotations

import os

from numc.support.errors import NumcError, did_you_mean, quoted

SWITCHES = {
    "by-rows": "attention and pooling some rows at a time",
    "byte-tensors": "integers of 8 bits between the layers of quantised models in bytes",
    "cut-backward": "large backward passes of training as programs one after the other, between which memory is freed",
    "fast": "cheap rounding sequences under guards",
    "fold-constants": "computing at compile time what depends on weights only",
    "fuse-elementwise": "elementwise chains as one loop",
    "fuse-first": "initial accumulators computed inside the kernel",
    "fuse-last": "elementwise operations computed inside the kernel",
    "hoist-products": "products with the inputs of all steps of a loop before the loop",
    "integer-products": "contractions of bytes by kernels",
    "keep-borders": "padded images in the memory of others that nobody reads any more, with the borders of these",
    "lanes-in-place": "vectors of pixels that products of float32 numbers read where they are",
    "merge-products": "products of one operand with parts of a weight as one product",
    "narrow-operands": "activations that contractions read in the bytes of their format",
    "pack-weights": "weights packed at compile time",
    "parallel-loops": "elementwise loops on several threads",
    "recompute": "activations of training computed again from others that are kept",
    "share-packing": "operands of several products packed once",
    "side-by-side": "parts that do not depend on each other at the same time",
    "skip-zeros": "transposed convolutions without the zeros between inputs",
    "split-batches": "products of batches over the dimensions that the batches come from",
    "stored-codes": "activations of training kept in the bytes of a narrow format",
    "stage-padding": "padding of depthwise convolutions in cache, a channel at a time",
    "sum-products": "sums of products, as of a recurrent weight's gradient, added up in the cache",
    "transposed-tiles": "filters in the lanes of vectors where images have few pixels",
    "unroll-windows": "reductions of small windows as elementwise operations",
    "write-over": "sums with residuals in the residual's memory",
}


def switched_off() -> frozenset[str]:
    """Return the switches that the environment names. Raises NumcError for a name that is not in SWITCHES."""
    listed = frozenset(part.strip() for part in os.environ.get("NUMC_DISABLE", "").split(",") if part.strip())
    for part in sorted(listed - SWITCHES.keys()):
        near = did_you_mean(part, SWITCHES)
        raise NumcError(f"NUMC_DISABLE: no such switch {quoted(part)}{near}: want {', '.join(SWITCHES)}")
    return listed


def disabled(name: str) -> bool:
    """Whether the environment switches `name`, one of SWITCHES, off. Raises NumcError for a bad NUMC_DISABLE."""
    assert name in SWITCHES
    return name in switched_off()
