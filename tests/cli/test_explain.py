"""numc explain, numc cost, and --policy of the other commands."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

import numc

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
CNN = DIGITS / "cnn.onnx"
TWO_PRODUCTS = """\
func.func @main(%x: tensor<64x64xf32>, %a: tensor<64x64xf32>, %b: tensor<64x64xf32>)
    -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %zero = arith.constant 0.0 : f32
  %room = tensor.empty() : tensor<64x64xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%room : tensor<64x64xf32>) -> tensor<64x64xf32>
  %p = linalg.matmul ins(%x, %a : tensor<64x64xf32>, tensor<64x64xf32>)
      outs(%filled : tensor<64x64xf32>) -> tensor<64x64xf32>
  %q = linalg.matmul ins(%x, %b : tensor<64x64xf32>, tensor<64x64xf32>)
      outs(%filled : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %p, %q : tensor<64x64xf32>, tensor<64x64xf32>
}
"""
POLICY = """\
default fma = bf16_1_1
layer "node_conv2d*" fma = mp
layer -1 fp32
"""


@pytest.fixture
def policy(tmp_path):
    file = tmp_path / "mixed.policy"
    file.write_text(POLICY)
    return file


def test_explain_prints_the_table(numc_run, policy):
    found = numc_run("explain", CNN, "--policy", policy)
    assert found.status == 0
    rows = [line.split("\t") for line in found.out.splitlines()]
    assert rows[0] == ["layer", "kind", "shape", "fma", "ops", "rule"]
    assert rows[1] == ["node_conv2d", "conv", "? x 16 x 9", "mp", "fp32", '2: layer "node_conv2d*"']
    assert [row[3] for row in rows[1:]] == ["mp", "mp", "mp", "bf16_1_1", "fp32"]
    assert rows[-1][-1] == "3: layer -1"
    everything = numc_run("explain", CNN, "--policy", policy, "--all").out.splitlines()
    assert len(everything) > len(rows)
    fixed = numc_run("explain", CNN, "--fma", "mp", "--shape", "x=2x64").out.splitlines()[1]
    assert fixed.split("\t")[2:4] == ["128 x 16 x 9", "mp"]


def test_the_program_has_the_same_table(numc_run, policy, tmp_path):
    shown = json.loads(numc_run("explain", CNN, "--policy", policy, "--json").out)
    assert shown["policy"] == POLICY
    done = numc_run("compile", CNN, "--policy", policy, "-o", tmp_path / "x.numc", "--json")
    assert json.loads(done.out)["policy"] == POLICY
    from numc.runtime.program import load

    program = load(tmp_path / "x.numc")
    assert program.manifest["layers"] == shown["layers"]
    assert [c["fma"] for c in program.manifest["contractions"]] == ["mp", "mp", "mp", "bf16_1_1", "fp32"]
    assert "contractions in mp, bf16_1_1, fp32," in numc_run("compile", CNN, "--policy", policy).out


def test_other_commands_take_policies(numc_run, policy):
    assert 'fma = "bf16_1_1"' in numc_run("compile", CNN, "--policy", policy, "--emit", "numc").out
    assert numc_run("run", CNN, "--policy", policy, "--random-input", "0").status == 0
    assert numc_run("verify", CNN, "--policy", policy, "--samples", "50").status == 0
    assert numc_run("verify", CNN, "--policy", "mp", "--samples", "50").status == 0


def test_a_policy_that_cannot_be_parsed_shows_the_place(numc_run):
    found = numc_run("compile", CNN, "--policy", "op softmax,, relu fp32")
    assert found.status == 2
    assert found.err == (
        "numc: error: policy:1: found ',', want a name\n  op softmax,, relu fp32\n             ^\n"
    )  # fmt: skip


def test_bad_input_is_one_line(numc_run, policy, tmp_path):
    other = numc_run("compile", DIGITS / "mlp.onnx", "--policy", policy, "-o", tmp_path / "no.numc")
    assert other.status == 2
    assert other.error.startswith(
        f'{policy}:2: layer "node_conv2d*" matches nothing in this model: its layers are node_'
    )
    assert not (tmp_path / "no.numc").exists()
    assert numc_run("explain", CNN, "--policy", policy, "--fma", "mp").error == (
        "--policy says what every operation computes in: leave --fma out, or give a `default`"
    )
    assert numc_run("explain", CNN, "--policy", "mxed.policy").error.startswith(
        "policy 'mxed.policy': No such file or directory: want a file, the text of a policy, or a preset: fp32, mp, "
    )
    assert numc_run("cost", CNN, "--machine", "fats").error == (
        "machine 'fats': No such file or directory (did you mean 'fast'?): want a .toml file, fast, thesis, vpgpu"
    )
    assert numc_run("cost", CNN, "--machine", "fast", "--fma", "mxfp8").error.startswith(
        "machine 'fast' has no unit for the operator 'fma(a=mxfp8"
    )
    assert (
        numc_run("cost", CNN, "--align", "24").error == "align: got 24, want 8, 16, 32, 64, or None for dense storage"
    )


def test_cost(numc_run, policy):
    found = numc_run("cost", CNN, "--policy", policy, "--batch", "2", "--machine", "thesis")
    assert found.status == 0
    rows = [line.split("\t") for line in found.out.splitlines()]
    assert rows[0][:5] == ["layer", "shape", "fma", "FMAs", "bf16 products"]
    assert rows[1][:8] == ["node_conv2d", "128 x 16 x 9", "mp", "18432", "18432", "64", "9", str(2 * 2 * 1600 // 16
                           + 2 * 144 + 4 * 2048)]  # fmt: skip
    assert rows[-1][0] == "total"
    assert found.err.startswith(
        "thesis: CPU core with the area of 32 fp32 FMA units (Osorio Rios 2023, tables 6.2 and 7.2), "
    )
    assert "; assumed, not from a source: units.fp32.latency, units.bf16.latency" in found.err
    given = ["--policy", policy, "--batch", "2", "--machine", "thesis", "--fma-share", "0.395"]
    whole = json.loads(numc_run("cost", CNN, *given, "--json").out)
    assert [layer["fmas"] for layer in whole["layers"]] == [int(row[3]) for row in rows[1:-1]]
    assert whole["total"]["fmas"] == int(rows[-1][3])
    assert whole["machine"]["name"] == "thesis"
    step = numc_run("cost", CNN, *given).err.splitlines()[-1]
    faster = whole["total"]["step_speed_up"]
    assert step == f"a step of which FMAs take 0.395: {faster:.4g} times as fast as in fp32"
    assert faster == pytest.approx(1 / (0.605 + 0.395 / whole["total"]["speed_up"]))


def test_rounds_of_fast(numc_run):
    found = numc_run("cost", CNN, "--policy", "default fma(a=bfp(16,3,4),b=bfp(16,3,2),acc=fp32)", "--machine", "fast",
                     "--json")  # fmt: skip
    assert [layer["passes"] for layer in json.loads(found.out)["layers"]] == [2] * 5


def test_cost_of_a_training_step(numc_run):
    found = numc_run("cost", CNN, "--policy", "lowbfp", "--batch", "8", "--machine", "fast", "--training")
    rows = [line.split("\t") for line in found.out.splitlines()]
    assert rows[0][-7:] == ["passes", "moved", "cycles", "us", "bound", "utilisation", "uJ"]
    # 288 products in sums of 128 positions: 18 groups of 16 fit in the 64 columns, 32 outputs in the 256 rows.
    first = next(row for row in rows if row[0] == "node_conv2d_2")
    assert (first[-7], first[-5], first[-4], first[-2]) == ("1", "446", "0.892", f"{1179648 / 446 / 16384 / 16:.4g}")
    assert first[-1] == f"{446 / 500e6 * 23.63 * 1e6:.4g}"
    assert (rows[-1][0], rows[-1][-7], len(rows)) == ("total", "1", 1 + 5 + 9 + 1)
    assert sum(int(row[-5]) for row in rows[1:-1]) == int(rows[-1][-5])


def test_the_schedule_of_a_program(numc_run, tmp_path):
    model, picture = tmp_path / "two.mlir", tmp_path / "two.svg"
    model.write_text(TWO_PRODUCTS)
    found = numc_run("explain", model, "--schedule", picture, "--threads", "16", "--memory", "0.5")
    assert found.status == 0, found.err
    columns, *rows = (line.split("\t") for line in found.out.splitlines())
    assert columns == ["stream", "begin (ms)", "end (ms)", "alone (ms)", "layer", "role", "kind"]
    assert Counter(row[-1] for row in rows)["contraction"] == 2
    assert "16 threads, at most 0.5 MiB: " in found.err
    assert "stream" in picture.read_text()
    data = json.loads(numc_run("explain", model, "--schedule", "--json").out)
    products = [row for row in data["operations"] if row["kind"] == "contraction"]
    assert data["sequence_peak"] == 2 * 64 * 64 * 4
    assert data["seconds"] <= data["sequence"]
    assert not {row["operation"] for row in products} & {one for row in products for one in row["after"]}


def test_options_of_a_schedule(numc_run):
    for given, message in (
        (("--threads", "2"), "--threads is about a schedule: ask for one with --schedule"),
        (("--memory", "2"), "--memory is about a schedule: ask for one with --schedule"),
        (("--schedule", "--all"), "--all is about the table of the arithmetic: leave it out, or --schedule"),
        (("--schedule", "x.pdf"), "schedule 'x.pdf': want a name that ends in .svg or .png"),
    ):
        found = numc_run("explain", CNN, *given)
        assert (found.status, found.err) == (2, f"numc: error: {message}\n")


@pytest.mark.all
def test_a_sensitivity_is_a_table(numc_run, tmp_path):
    options = ["--fma", "fmac(e4m3)", "--sensitivity", "--widths", "3..4", "--batch", 4]
    done = numc_run("explain", DIGITS / "mlp.onnx", *options, "--report", tmp_path / "page.html")
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert rows[0] == ["narrow", "name", "FMAs", "error", "cosine"]
    assert [row[0] for row in rows[1:]] == ["nothing", "all", *["layer"] * 3, *["operand"] * 3, *["accumulator"] * 2]
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")


class Pair(torch.nn.Linear):
    """A model of two results."""

    def __init__(self):
        super().__init__(6, 3)

    def forward(self, x):
        return super().forward(x), x


@pytest.fixture
def step(tmp_path):
    """A network of positions, samples of a step, and the files that hold them."""
    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    x, classes = torch.randn(2, 5, 6), torch.randint(3, (2, 5))
    torch.export.save(torch.export.export(network, (x,)), tmp_path / "net.pt2")
    for name, values in (("x", x), ("y", classes), ("short", classes[:, :4])):
        np.save(tmp_path / f"{name}.npy", values.numpy())
    return network, x, classes


TRAINING = ["--fma", "fmac(e4m3)", "--sensitivity", "--training", "--widths", "7"]


@pytest.mark.slow
def test_the_sensitivity_of_a_training_step_is_that_of_the_function(numc_run, step, tmp_path):
    network, x, classes = step
    samples = ["--data", tmp_path / "x.npy", "--labels", tmp_path / "y.npy"]
    done = numc_run("explain", tmp_path / "net.pt2", *TRAINING, *samples, "--json")
    assert done.status == 0, done.err
    told = {(row["what"], row["name"]): row["error"] for row in json.loads(done.out)["parts"]}

    def loss(outputs):
        return torch.nn.functional.cross_entropy(outputs.flatten(0, 1), classes.flatten())

    parts = numc.training_sensitivity(network, (x,), loss, fma="fmac(e4m3)", widths=(7,)).parts
    assert told == {(part.what, part.name): pytest.approx(part.error, rel=1e-6) for part in parts}
    assert {name for what, name in told if what == "role"} == {"forward", "dgrad", "wgrad"}


def test_what_is_no_training_step(numc_run, step, tmp_path):
    x, y, short = (tmp_path / f"{name}.npy" for name in ("x", "y", "short"))
    torch.export.save(torch.export.export(torch.nn.ReLU(), (step[1],)), tmp_path / "relu.pt2")
    torch.export.save(torch.export.export(Pair(), (step[1],)), tmp_path / "pair.pt2")
    (tmp_path / "net.onnx").touch()
    for model, samples, says in (
        ("net.pt2", ["--data", x], "--training is about a step, whose loss has labels: give --data and --labels"),
        ("net.onnx", ["--data", x, "--labels", y], "net.onnx': want an exported program of PyTorch (.pt2)"),
        ("net.pt2", ["--data", x, "--labels", short], "net.pt2: these samples make no step of it: "),
        ("net.pt2", ["--data", f"u={x}", "--data", f"v={x}", "--labels", y], "net.pt2: inputs 'u', 'v', want 'input'"),
        ("pair.pt2", ["--data", x, "--labels", y], "pair.pt2: gives a tuple, want one tensor, which the labels are of"),
        ("relu.pt2", ["--data", x, "--labels", y], "relu.pt2: has no parameters, want a model that can be trained"),
    ):
        done = numc_run("explain", tmp_path / model, *TRAINING, *samples)
        assert done.status == 2, done.out
        assert says in done.err, done.err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--data", "x.npy"], "--data is about a sensitivity: ask for one with --sensitivity"),
        (["--plots", "x"], "--plots is about a sensitivity: ask for one with --sensitivity"),
        (["--sensitivity"], "--sensitivity is about one operator, of which the rest is fp32: give --fma, and no other"),
        (["--training"], "--training is about a sensitivity: ask for one with --sensitivity"),
        (
            ["--sensitivity", "--fma", "mp", "--training", "--metric", "top1"],
            "--training is about errors of gradients: leave --metric out",
        ),
        (
            ["--sensitivity", "--fma", "mp", "--plots", __file__],
            f"{__file__}: is a file: name a folder for plots",
        ),
        (["--sensitivity", "--all"], "--sensitivity prints a table of its own: leave --all out"),
        (["--sensitivity", "--fma", "mp", "--labels", "x.npy"], "--labels are of samples: give --data, too"),
        (
            ["--sensitivity", "--fma", "mp", "--widths", "7..3"],
            "--widths '7..3': want significand bits from 1 to 23: 3,7,23 or 3..10",
        ),
    ],
)
def test_what_a_sensitivity_is_not(numc_run, options, says):
    done = numc_run("explain", DIGITS / "mlp.onnx", *options)
    assert (done.status, done.error) == (2, says)
