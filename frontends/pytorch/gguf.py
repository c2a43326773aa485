"""A language model in one GGUF file of llama.cpp: transformers maps its names, the package gguf reads its numbers."""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from pathlib import Path
from typing import Any

from numc.support.errors import NumcError, quoted

_FACTORS = "rope_freqs.weight"


def header(path: Path) -> Any:
    """Open a file. Raises NumcError if it is no GGUF, one of several parts, of unknown types, or scales positions.

    Llama 3.1 has one factor for each frequency, in a tensor of its own, which `read` takes; transformers reads no other
    scaling from these files, and would compute something else without a word.
    """
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)
    except Exception as error:  # of whatever is not as the format says
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise NumcError(f"cannot be read: {reason}: want a GGUF file of version 2 or 3") from None
    if _field(reader, "split.count", 0) > 1:
        raise NumcError("is one part of several: merge them with llama.cpp's gguf-split --merge")
    _check_types(reader)
    architecture = _field(reader, "general.architecture", "")
    scaling = _field(reader, f"{architecture}.rope.scaling.type", "none")
    if scaling != "none" and architecture != "gpt-oss":
        raise NumcError(f"scales positions ({quoted(scaling)}), which transformers does not read from GGUF: "
                        "use the folder that it was made from")  # fmt: skip
    return reader


def _check_types(reader: Any) -> None:
    """Raise NumcError for a tensor in a type, such as those of intermediate results, that gguf makes no numbers of."""
    import numpy as np
    from gguf import GGML_QUANT_SIZES, dequantize

    for tensor_type, name in {tensor.tensor_type: tensor.name for tensor in reversed(reader.tensors)}.items():
        try:
            dequantize(np.zeros((1, GGML_QUANT_SIZES[tensor_type][1]), np.uint8), tensor_type)
        except NotImplementedError:
            raise NumcError(
                f"tensor {quoted(name)} is in {tensor_type.name}, of which the package gguf makes no numbers: want a "
                "type of weights such as Q4_0, Q8_0, Q4_K or Q6_K"
            ) from None


def types(reader: Any) -> str:
    """Return which types the tensors of a file have, with their numbers."""
    counts = Counter(tensor.tensor_type.name for tensor in reader.tensors)
    return f"gguf ({', '.join(f'{count} tensors in {name}' for name, count in counts.items())})"


def read(path: Path, reader: Any, reporting: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the model of a file, in float32, and the report of its loading. Raises NumcError for a NaN in a weight."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, GgufConfig

    where: dict[str, Any] = {"gguf_file": path.name, "local_files_only": True, "trust_remote_code": False}
    config = AutoConfig.from_pretrained(path.parent, **where)
    context = _field(reader, f"{_field(reader, 'general.architecture', '')}.context_length", None)
    if context is not None:
        config.max_position_embeddings = int(context)  # which transformers leaves at its default for GPT-2
    _check_whole(config, reader)
    dense = GgufConfig(dequantize=True)
    with contextlib.redirect_stderr(io.StringIO()):  # its progress, which no setting of transformers turns off
        model, report = AutoModelForCausalLM.from_pretrained(
            path.parent, config=config, dtype=torch.float32, quantization_config=dense, **where, **reporting
        )
    _divide_frequencies(model, reader)
    for name, weight in model.named_parameters():
        if not bool(torch.isfinite(weight).all()):
            raise NumcError(f"weight {quoted(name)} has numbers that are not finite: take another copy of the file")
    return model, report


def _check_whole(config: Any, reader: Any) -> None:
    """Raise NumcError for fewer numbers than the model has: transformers would make them up, in any size of memory."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    needed = sum(weight.numel() for weight in model.parameters())
    stored = sum(int(tensor.n_elements) for tensor in reader.tensors)
    if stored < needed:
        raise NumcError(f"has {stored} numbers, the model that it describes has {needed}: the file is not whole")


def _field(reader: Any, name: str, default: Any) -> Any:
    field = reader.get_field(name)
    return default if field is None else field.contents()


def _divide_frequencies(model: Any, reader: Any) -> None:
    """Divide the frequencies of rotary positions by the factors in the file, as llama.cpp does."""
    import torch

    factors = next((tensor.data for tensor in reader.tensors if tensor.name == _FACTORS), None)
    if factors is None:
        return
    rotary = model.model.rotary_emb
    for name in ("inv_freq", "original_inv_freq"):
        setattr(rotary, name, getattr(rotary, name) / torch.from_numpy(factors.copy()))
