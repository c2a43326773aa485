"""Make the small sequence models of the tests, with random weights: transformer.onnx, lstm.onnx and gru.onnx.

Beside each lies NAME.npz with an `input` and the `expected` output, computed by onnxruntime in fp32. Run:
``python examples/models/make.py``. Needs torch, onnx, onnxscript and onnxruntime.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn

HERE = Path(__file__).parent
SEQUENCE, FEATURES = 16, 64


class Attention(nn.Module):
    """Self-attention with four heads, written out."""

    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(features, 3 * features)
        self.out = nn.Linear(features, features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the attention output of every position; x is [batch, sequence, features]."""
        q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=2))
        weights = torch.softmax(q @ k.transpose(2, 3) / q.shape[-1] ** 0.5, dim=3)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """One encoder layer, normalised before attention and before the two dense layers."""

    def __init__(self, features: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.attention = Attention(features, heads)
        self.norm1, self.norm2 = nn.LayerNorm(features), nn.LayerNorm(features)
        self.up, self.down = nn.Linear(features, hidden), nn.Linear(hidden, features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the encoded sequence, same shape."""
        x = x + self.attention(self.norm1(x))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Recurrent(nn.Module):
    """A recurrent network whose last state passes through a dense layer."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU], layers: int) -> None:
        super().__init__()
        self.net = kind(16, 32, num_layers=layers, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ten numbers per sequence; x is [batch, sequence, 16]."""
        return self.head(self.net(x)[0][:, -1])


def strip(file: Path) -> None:
    """Remove the metadata of the exporter from a model: it names source files of the machine that ran it."""
    model = onnx.load(file)
    graph = model.graph
    for proto in (model, graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        del proto.metadata_props[:]
        proto.doc_string = ""
    onnx.save(model, file)


def make(name: str, model: nn.Module, features: int, *, dynamic: bool) -> None:
    """Export `model` and record one input and its output."""
    torch.manual_seed(1)
    x = torch.randn(2, SEQUENCE, features)
    file = HERE / f"{name}.onnx"
    torch.onnx.export(
        model.eval(),
        (x,),
        file,
        input_names=["x"],
        output_names=["y"],
        dynamic_shapes=({0: torch.export.Dim("batch")},) if dynamic else None,
        opset_version=18,
        external_data=False,
        dynamo=True,
    )
    strip(file)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x.numpy()})
    np.savez_compressed(HERE / f"{name}.npz", input=x.numpy(), expected=expected)
    print(f"{name}: {file.stat().st_size} bytes")


def main() -> None:
    """Make all three."""
    torch.manual_seed(0)
    encoder = nn.Sequential(*(Layer(FEATURES, 4, FEATURES // 2) for _ in range(2)), nn.LayerNorm(FEATURES))
    make("transformer", encoder, FEATURES, dynamic=True)
    make("lstm", Recurrent(nn.LSTM, 2), 16, dynamic=True)
    make("gru", Recurrent(nn.GRU, 1), 16, dynamic=False)


if __name__ == "__main__":
    main()
