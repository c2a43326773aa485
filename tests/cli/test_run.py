"""numc run and numc verify: inputs from files and at random, outputs to files and tables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import numc
from numc.studies.observe.verify import Report, Row

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


def _arrays(batch: int = 2) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    shapes = {"arg0": (batch, 4), "arg1": (4, 3), "arg2": (batch, 3)}
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    for name, value in arrays.items():
        np.save(f"{name}.npy", value)
    np.savez("all.npz", **arrays)
    return arrays


@pytest.mark.parametrize(
    "inputs",
    [
        ["arg0.npy", "arg1.npy", "arg2.npy"],
        ["arg2=arg2.npy", "arg0.npy", "arg1=arg1.npy"],
        ["all.npz"],
    ],
)
def test_inputs_by_position_by_name_and_as_npz(numc_run, folder, inputs):
    arrays = _arrays()
    given = [word for text in inputs for word in ("--input", text)]
    done = numc_run("run", folder / "matmul.numc", *given, "--output", "y.npy", "--threads", 1)
    assert (done.status, done.out, done.err) == (0, "", "")
    np.testing.assert_array_equal(np.load("y.npy"), numc.load(folder / "matmul.numc")(arrays))
    assert not list(Path().glob(".y*"))


def test_npz_output_has_every_output_by_name(numc_run, folder):
    assert numc_run("run", folder / "two.numc", "--random-input", 3, "--batch", 5, "--output", "y.npz").status == 0
    with np.load("y.npz") as outputs:
        assert {name: (outputs[name].shape, outputs[name].dtype.name) for name in outputs.files} == {
            "result0": ((5,), "float32"),
            "result1": ((3,), "int64"),
        }


def test_a_table_of_statistics_without_output(numc_run, folder):
    values = np.array([1, 2, np.inf], np.float32)
    np.save("a.npy", values)
    np.save("n.npy", np.array([1, 2, 3]))
    given = ("--input", "a.npy", "--input", "n.npy")
    lines = numc_run("run", folder / "two.numc", *given).out.splitlines()
    assert [line.split("\t") for line in lines] == [
        ["output", "shape", "dtype", "min", "mean", "max"],
        ["result0", "3", "float32", "1", "inf", "inf"],
        ["result1", "3", "int64", "1", "2", "3"],
    ]
    told = json.loads(numc_run("run", folder / "two.numc", *given, "--json").out)
    assert told["outputs"][0] == {
        "name": "result0", "shape": [3], "dtype": "float32", "min": 1.0, "mean": "inf", "max": "inf"
    }  # fmt: skip
    assert told["seconds"] > 0


def test_random_inputs_are_the_seed(numc_run, folder):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        assert numc_run("run", folder / "mlp.numc", "--random-input", seed, "--output", f"{name}.npy").status == 0
    assert np.load("a.npy").shape == (1, 10)
    np.testing.assert_array_equal(np.load("a.npy"), np.load("b.npy"))
    assert (np.load("a.npy") != np.load("c.npy")).any()


def test_a_model_is_compiled_on_the_spot(numc_run, folder):
    _arrays()
    model = folder / "matmul.mlir"
    assert numc_run("run", model, "--fma", "bf16_1_1", "--input", "all.npz", "--output", "y.npy").status == 0
    want = numc.compile(model, fma="bf16_1_1")(dict(np.load("all.npz")))
    np.testing.assert_array_equal(np.load("y.npy"), want)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["none.numc"], "No such file or directory"),
        (
            ["MATMUL", "--fma", "mp"],
            "a program is compiled already: leave --fma, --ops, --policy, --target",
        ),
        (["MATMUL"], "no value for 'arg0' (float32[?,4]), 'arg1' (float32[4,3]), 'arg2' (float32[?,3]): give --input"),
        (
            ["MATMUL", "--input", "none.npy"],
            "none.npy: cannot read: No such file or directory: want a .npy or .npz file",
        ),
        (["MATMUL", "--input", "text.npy"], "text.npy: not a numpy file of plain numbers: want a .npy or .npz file"),
        (["MATMUL", "--input", "empty.npy"], "empty.npy: not a numpy file of plain numbers"),
        (["MATMUL", "--input", "damaged.npz"], "damaged.npz: not a numpy file of plain numbers"),
        (["MATMUL", "--input", "objects.npy"], "objects.npy: not a numpy file of plain numbers"),
        (["MATMUL", "--input", "arg9=arg0.npy"], "--input 'arg9': no such input (did you mean 'arg2' or 'arg1'?)"),
        (["MATMUL", "--input", "arg0=arg0.npy", "--input", "arg0=arg0.npy"], "--input 'arg0': given twice"),
        (
            ["MATMUL", *["--input", "arg0.npy"] * 4],
            "--input arg0.npy: one input too many: the program takes 'arg0', 'arg1',",
        ),
        (
            ["MATMUL", "--input", "all.npz", "--input", "arg0.npy"],
            "--input all.npz: an .npz names its arrays: want it alone",
        ),
        (["MATMUL", "--input", "wrong.npz"], "wrong.npz: array 'x': no such input: the program takes 'arg0', "),
        (["MATMUL", "--input", "arg1.npy", "--random-input", "0"], "input 'arg0': got float32[4,3], want float32[?,4]"),
        (
            ["MATMUL", "--random-input", "0", "--output", "y.txt"],
            "--output y.txt: want a name that ends in .npy or .npz",
        ),
        (["MATMUL", "--random-input", "0", "--output", "no/y.npy"], "no/y.npy: cannot write: there is no folder no"),
        (
            ["TWO", "--random-input", "0", "--output", "y.npy"],
            "--output y.npy: the program has 2 outputs: want an .npz",
        ),
        (["MATMUL", "--random-input", "0", "--threads", "0"], "Invalid value for '--threads': 0 is not in the range"),
        (["MATMUL", "--random-input", "x"], "Invalid value for '--random-input': 'x' is not a valid integer range."),
    ],
)
def test_errors_are_one_line(numc_run, folder, arguments, text):
    _arrays()
    Path("text.npy").write_text("1 2 3")
    Path("empty.npy").write_text("")
    Path("damaged.npz").write_bytes(Path("all.npz").read_bytes()[:100])
    np.save("objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez("wrong.npz", x=np.zeros(3))
    named = {"MATMUL": folder / "matmul.numc", "TWO": folder / "two.numc"}
    done = numc_run("run", *(named.get(a, a) for a in arguments))
    assert text in done.error
    assert done.status == 2
    assert not list(Path().glob("y*"))


def test_a_failed_write_leaves_the_old_file(numc_run, folder, monkeypatch):
    Path("y.npy").write_text("old")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    done = numc_run("run", folder / "mlp.numc", "--random-input", 0, "--output", "y.npy")
    assert done.error == "y.npy: cannot write: No space left on device"
    assert [(p.name, p.read_text()) for p in Path().iterdir()] == [("y.npy", "old")]


def test_verify_counts_every_contraction(numc_run, folder):
    done = numc_run("verify", folder / "mlp.numc", "--samples", 30)
    assert (done.status, done.err) == (0, "")
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert [row[2] for row in rows[1:4]] == ["bf16_1_2"] * 3
    assert all(row[3] == "1" and int(row[4]) > 0 and row[5] == "0" for row in rows[1:4])
    assert rows[-1][0].startswith("0 mismatches in ")
    told = json.loads(numc_run("verify", folder / "mlp.numc", "--samples", 30, "--json").out)
    assert (told["mismatches"], told["first"], len(told["contractions"])) == (0, None, 3)
    assert told["checked"] == sum(row["checked"] for row in told["contractions"])


def test_verify_says_the_first_mismatch_and_exits_1(numc_run, folder, monkeypatch):
    report = Report((Row(0, "dense", "mp", 1, 9, 2),), "contraction 0: got 0x3f800000, want 0x3f800001")
    monkeypatch.setattr("numc.studies.observe.verify.verify", lambda *_, **__: report)
    done = numc_run("verify", folder / "mlp.numc")
    assert done.status == 1
    assert done.out.splitlines()[-2:] == ["2 mismatches in 9 outputs checked", f"first mismatch: {report.first}"]


def test_verify_says_when_there_is_nothing_to_check(numc_run, folder):
    assert numc_run("verify", folder / "two.numc").out.endswith(
        "0 mismatches in 0 outputs checked: the program has no contraction\n"
    )


def test_seed(numc_run, folder):
    """Equal seeds give equal bits, no seed is seed 0."""
    run = ("run", folder / "matmul.mlir", "--fma", "fma(a=bf16,acc=bf16:sr8)", "--random-input", 0, "--batch", 40)
    found = []
    for seed in ((), ("--seed", 0), ("--seed", 7), ("--seed", 7)):
        assert numc_run(*run, *seed, "--output", "y.npy").status == 0
        found.append(np.load("y.npy").tobytes())
    assert found[0] == found[1] != found[2] == found[3]
    text = numc_run(*run, "--seed", -1).error
    assert text == "seed: got -1, want a whole number from 0 to 18446744073709551615"


def test_bad_widths(numc_run, folder):
    for given, error in (
        ("3", "widths: this program has none to choose: compile it with open ones, such as bfp(16,3,2..4)"),
        ("{", "--widths '{': not JSON: want a number, [exponent bits, significand bits], or layers as in "),
        ("none.json", "--widths 'none.json': No such file or directory: name a file of JSON"),
    ):
        done = numc_run("run", folder / "matmul.numc", "--random-input", 0, "--batch", 2, "--widths", given)
        assert done.status == 2
        assert done.err.startswith(f"numc: error: {error}")


@pytest.mark.all
def test_widths(numc_run, tmp_path):
    model, images = str(DIGITS / "mlp.onnx"), np.load(DIGITS / "heldout.npz")["images"][:3]
    chosen = {"node_linear": {"b": 2}, "node_linear_2": 3}
    (tmp_path / "chosen.json").write_text(json.dumps(chosen))
    np.save("x.npy", images)
    program = numc.compile(model, fma="bfp(16,3,2..4)")
    program.save("open.numc")
    for given, want in (
        (json.dumps(chosen), program(images, widths=chosen)),
        (tmp_path / "chosen.json", program(images, widths=chosen)),
        ("[3, 2]", program(images, widths=2)),
    ):
        assert numc_run("run", "open.numc", "--input", "x.npy", "--output", "y.npy", "--widths", given).status == 0
        np.testing.assert_array_equal(np.load("y.npy"), want)
