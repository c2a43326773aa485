"""Train the two digit classifiers that the examples use, and export them: mlp.onnx, cnn.onnx and heldout.npz.

Run from anywhere: ``python examples/digits/train.py``. Needs torch, onnx, onnxscript and scikit-learn. Takes 20 s.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

HERE = Path(__file__).parent


def mlp() -> nn.Module:
    """Return a perceptron 64-128-64-10; input [batch, 64]."""
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


class Cnn(nn.Module):
    """Three convolutions and two dense layers; input [batch, 64], the pixels of an 8x8 image."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.conv3 = nn.Conv2d(32, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the ten logits of every image."""
        x = x.reshape(-1, 1, 8, 8)
        x = torch.relu(self.conv1(x))
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = torch.relu(self.conv3(x))
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


def train(model: nn.Module, x: torch.Tensor, y: torch.Tensor, epochs: int) -> None:
    """Fit `model` to images `x` and labels `y` with Adam and mini-batches of 64."""
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
        schedule.step()


def strip(file: Path) -> None:
    """Remove the metadata of the exporter from a model: it names source files of the machine that ran it."""
    model = onnx.load(file)
    graph = model.graph
    for proto in (model, graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        del proto.metadata_props[:]
        proto.doc_string = ""
    onnx.save(model, file)


def data() -> list[np.ndarray]:
    """Return the images to train on, the held-out images, and the labels of both. Pixels are 0 to 1."""
    digits = load_digits()
    images = (digits.data / 16).astype(np.float32)
    return train_test_split(images, digits.target, test_size=360, random_state=3, stratify=digits.target)


def main() -> None:
    """Train, report, export."""
    x, held_x, y, held_y = data()
    np.savez_compressed(HERE / "heldout.npz", images=held_x, labels=held_y.astype(np.int64))
    for name, build, epochs in (("mlp", mlp, 60), ("cnn", Cnn, 30)):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        model = build()
        train(model, torch.from_numpy(x), torch.from_numpy(y), epochs)
        model.eval()
        with torch.no_grad():
            right = model(torch.from_numpy(held_x)).argmax(1).numpy() == held_y
        print(f"{name}: {right.mean():.2%} of {len(held_y)} held-out images")
        torch.onnx.export(
            model,
            (torch.zeros(2, 64),),
            HERE / f"{name}.onnx",
            input_names=["x"],
            output_names=["logits"],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            opset_version=18,
            external_data=False,
            dynamo=True,
        )
        strip(HERE / f"{name}.onnx")


if __name__ == "__main__":
    main()
