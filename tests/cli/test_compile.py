"""numc compile: programs, IR of stages, dumps, and what it says about bad input."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import numc
from numc.compiler.pipeline import STAGES
from numc.support import progress

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


def test_the_default_output_is_the_stem_and_the_summary_is_one_line(numc_run, folder):
    done = numc_run("compile", folder / "matmul.mlir", "--fma", "mp")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(
        "matmul.numc: (arg0: float32[?,4], arg1: float32[4,3], arg2: float32[?,3]) -> (result0: "
    )
    assert "1 contractions in mp, " in done.out
    assert numc.load("matmul.numc").manifest["fma"] == "mp"


def test_json_summary(numc_run):
    done = numc_run(
        "compile", DIGITS / "mlp.onnx", "--fma", "fma(a=e4m3fn,acc=fp32)", "--ops", "bf16", "--json", "-o", "m.numc"
    )
    told = json.loads(done.out)
    program = numc.load("m.numc")
    assert told["inputs"] == [{"name": "x", "dtype": "float32", "shape": [None, 64]}]
    assert (told["contractions"], told["fma"], told["ops"]) == (3, program.manifest["fma"], "bf16")
    assert told["code_bytes"] == len(program.contents.code)
    assert told["weight_bytes"] == sum(w.nbytes for w in program.contents.weights) > 0


@pytest.mark.all
def test_pack_weights_tells_the_size_before_and_after(numc_run):
    command = ("compile", DIGITS / "cnn.onnx", "--fma", "fmac(e4m5)", "--pack-weights", "-o", "m.numc")
    told = json.loads(numc_run(*command, "--json").out)
    plain = numc.compile(DIGITS / "cnn.onnx", fma="fmac(e4m5)")
    program = numc.load("m.numc")
    assert told["weight_bytes"] == told["stored_weight_bytes"] == sum(w.nbytes for w in program.contents.weights)
    assert told["weight_bytes"] < sum(w.nbytes for w in plain.contents.weights) / 3
    assert told["weights"] == program.manifest["weights"]
    assert told["packed_values"] == 16 * 9 + 32 * 144 + 32 * 288 + 64 * 512 + 10 * 64
    assert 10 <= told["bits_per_packed_value"] < 10.5  # and what guards know of each panel
    assert told["program_bytes"] == Path("m.numc").stat().st_size
    assert (
        f"{told['weight_bytes']} bytes of weights, stored in {told['stored_weight_bytes']} "
        f"({told['bits_per_packed_value']:.1f} bits per packed value), " in numc_run(*command).out
    )
    told = json.loads(numc_run("compile", DIGITS / "mlp.onnx", "--pack-weights", "-o", "m.numc", "--json").out)
    assert (told["packed_values"], told["bits_per_packed_value"]) == (0, None)
    assert told["stored_weight_bytes"] == told["weight_bytes"]


def test_a_bar_on_a_terminal_names_the_layer(numc_run, monkeypatch):
    seen = []
    command = ("compile", DIGITS / "mlp.onnx", "--no-cache")
    with progress.told(lambda *where: seen.append(where)):
        assert numc_run(*command).err == ""
    layers = [row["name"] for row in numc.load("mlp.numc").manifest["contractions"]]
    assert [(item, done, total) for what, item, done, total in seen if what == "kernel of"] == [
        (layer, n, len(layers)) for n, layer in enumerate(layers)
    ]
    of_parts = STAGES["llvm"]  # which are told of as machine code
    passes = [name for passes in STAGES.values() for name in passes if name not in of_parts]
    assert [item for what, item, *_ in seen if what == "pass"] == passes
    assert {what for what, *_ in seen} == {"pass", "kernel of", "weight", "machine code of"}
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert "compiling mlp.onnx" in numc_run(*command).err


def test_shape_fixes_an_input(numc_run):
    assert numc_run("compile", DIGITS / "mlp.onnx", "--shape", "x=5x64", "-o", "m.numc").status == 0
    assert numc.load("m.numc").inputs[0].shape == (5, 64)


@pytest.mark.parametrize(
    ("stage", "marker"), [("linalg", "linalg.generic"), ("numc", '"numc.fma"'), ("llvm", "llvm.func")]
)
def test_emit_prints_the_stage_and_nothing_else(numc_run, folder, stage, marker):
    done = numc_run("compile", folder / "matmul.mlir", "--fma", "bf16_1_1", "--emit", stage)
    assert (done.status, done.err) == (0, "")
    assert marker in done.out
    assert not list(Path().iterdir())
    assert numc_run("compile", folder / "matmul.mlir", "--fma", "bf16_1_1", "--emit", stage, "-o", "x.mlir").out == ""
    assert Path("x.mlir").read_text() == done.out


def test_dump_dir_is_created_and_holds_every_stage(numc_run, folder):
    from numc.compiler.pipeline import STAGES

    assert numc_run("compile", folder / "matmul.mlir", "--dump-dir", "ab", "-o", "m.numc").status == 0
    assert {f"{stage}.mlir" for stage in STAGES} <= {p.name for p in Path("ab").iterdir()}
    numbered = {number: p.read_text() for p in sorted(Path("ab").glob("[0-9]*.mlir")) for number in [int(p.name[:2])]}
    rows = [line.split(" | ") for line in Path("ab/index.md").read_text().splitlines() if line[2:3].isdigit()]
    names = [(stage, name) for stage, passes in STAGES.items() for name in passes]
    assert [(row[1], row[2]) for row in rows] == names
    # A file for each pass that changed the IR, with the difference, and for no other.
    assert [n for n, row in enumerate(rows, 1) if ".mlir" in row[5]] == list(numbered)
    assert {p.stem for p in Path("ab").glob("*.diff")} == {p.stem for p in Path("ab").glob("[0-9]*.mlir")}
    assert len(set(numbered.values())) == len(numbered) < len(names) - 20
    explicit = next(Path("ab").glob("*explicit-arithmetic.diff")).read_text()
    assert '+        %0 = "numc.fma"' in explicit or '"numc.fma"' in explicit
    # What another compilation left there goes, what a person wrote stays.
    Path("ab/99-numc-old.mlir").touch()
    Path("ab/notes.md").touch()
    assert numc_run("compile", folder / "matmul.mlir", "--dump-dir", "ab", "-o", "m.numc").status == 0
    assert [Path("ab", name).exists() for name in ("99-numc-old.mlir", "notes.md")] == [False, True]


def test_times_of_passes(numc_run, folder):
    from numc.compiler.pipeline import STAGES

    done = numc_run("compile", folder / "matmul.mlir", "--time-passes", "-o", "m.numc")
    assert done.status == 0
    rows = [line.split() for line in done.err.splitlines()]
    passes = [name for passes in STAGES.values() for name in passes]
    assert [row[1] for row in rows if len(row) == 4 and row[0] in STAGES] == [
        n for n in passes if n not in STAGES["llvm"]
    ]
    assert sum(float(row[-2]) for row in rows if row and row[-1].endswith("%")) > 0
    done = numc_run("compile", folder / "matmul.mlir", "--time-passes", "--emit", "numc")
    assert "check-arithmetic" in done.err
    assert "numc.fma" in done.out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["none.onnx"], "none.onnx: no such file: want a model"),
        (["prog.numc"], "prog.numc: no model by its suffix: want .onnx, .mlir, .pt2, .gguf or a folder"),
        (["MODEL", "--fma", "bf16_1_4"], "bf16_1_4"),
        (["MODEL", "--ops", "bf61"], "bf16"),
        (["MODEL", "--target", "x86-64-v5"], "unknown target 'x86-64-v5' (did you mean "),
        (["MODEL", "--target", ""], "unknown target '': want "),
        (["MODEL", "--fma", ""], "FMA operator '': cannot read it from its end"),
        (["MODEL", "--ops", ""], "format '': cannot read it from its end"),
        (
            ["MODEL", "--emit", "lvm"],
            f"--emit 'lvm': no such stage (did you mean 'llvm'?): want {', '.join(STAGES)}",
        ),
        (["MODEL", "--emit", "llvm", "--json"], "--emit writes IR text: leave --json out"),
        (["MODEL", "--emit", "numc", "--pack-weights"], "--emit writes IR text, which holds no weights: leave"),
        (["MODEL", "-o", "-"], "-o -: a program is not text: name a file (stdout is for --emit)"),
        (["MODEL", "--shape", "x"], "--shape 'x': want NAME=SIZExSIZE..., sizes of at least 1, such as x=1x3x224x224"),
        (["MODEL", "--shape", "x=1x0"], "--shape 'x=1x0': want NAME=SIZE"),
        (["MODEL", "--shape", "x=1,2"], "--shape 'x=1,2': want NAME=SIZE"),
        (["MODEL", "--shape", "x=1", "--shape", "x=2"], "--shape 'x=2': the shape of 'x' is given twice"),
        (["MODEL", "--shape", "x=1x4"], "shapes are part of MLIR text"),
        (
            ["MODEL", "--value", "x=1"],
            "shapes are part of MLIR text: change the types there, leave --shape and --value out",
        ),
        (["MODEL", "--shape", "x=1", "--value", "x=1"], "values: 'x' has a shape by its value: leave its shape out"),
        (["MODEL", "-o", "none/m.numc"], "none/m.numc: cannot write: there is no folder none: create it first"),
        (["MODEL", "-o", "."], ".: is a folder: name a file for the output"),
        (["MODEL", "-o", "/dev/null"], "/dev/null: not a regular file"),
        (["MODEL", "--fam", "mp"], "No such option '--fam'"),
        ([], "Missing argument 'MODEL.onnx|MODEL.mlir|MODEL.pt2|FOLDER'"),
    ],
)
def test_errors_are_one_line(numc_run, folder, arguments, text):
    done = numc_run("compile", *(folder / "matmul.mlir" if a == "MODEL" else a for a in arguments))
    assert text in done.error
    assert done.status == 2
    assert not Path("matmul.numc").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder_is_found_before_compiling(numc_run, folder, monkeypatch):
    Path("locked").mkdir(mode=0o500)
    monkeypatch.setattr("numc.compiler.programs.compile.to_file", None)
    assert numc_run("compile", folder / "matmul.mlir", "-o", "locked/m.numc").error == (
        "locked/m.numc: cannot write: permission denied: name another place for the output"
    )


def test_unwritable_output_is_found_before_compiling(numc_run, folder, monkeypatch):
    monkeypatch.setattr("numc.compiler.programs.compile.to_file", None)
    assert "there is no folder gone" in numc_run("compile", folder / "matmul.mlir", "-o", "gone/m.numc").error


def test_a_dump_overwrites_no_index_of_somebody_else(numc_run, folder):
    Path("notes").mkdir()
    mine = {"index.md": "# My notes\n", "01-tensors-mine.mlir": "module {}\n"}
    for name, text in mine.items():
        Path("notes", name).write_text(text)
    done = numc_run("compile", folder / "matmul.mlir", "--dump-dir", "notes")
    assert done.error == "notes/index.md: is not of a dump and would be overwritten: name another folder"
    assert {file.name: file.read_text() for file in Path("notes").iterdir()} == mine
    Path("notes/index.md").write_bytes(b"\xff")
    assert numc_run("compile", folder / "matmul.mlir", "--dump-dir", "notes").error == done.error


def test_dump_dir_with_a_folder_where_a_file_would_be(numc_run, folder):
    Path("dump", "linalg.mlir").mkdir(parents=True)
    done = numc_run("compile", folder / "matmul.mlir", "--dump-dir", "dump", "-o", "x.numc")
    assert (done.status, done.error) == (
        2,
        "dump/linalg.mlir: cannot write the IR: Is a directory: name another folder",
    )


def test_dump_dir_that_is_a_file(numc_run, folder):
    Path("file").write_text("")
    assert numc_run("compile", folder / "matmul.mlir", "--dump-dir", "file").error == (
        "file: is a file: name a folder for the IR"
    )


def test_a_compiled_model_computes_what_the_python_function_does(numc_run, folder):
    x = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    here = numc.compile(DIGITS / "mlp.onnx", fma="bf16_1_2")
    np.testing.assert_array_equal(numc.load(folder / "mlp.numc")(x), here(x))


def test_the_second_time_comes_from_the_cache(numc_run, folder, monkeypatch, tmp_path):
    monkeypatch.setenv("NUMC_CACHE_DIR", str(tmp_path / "cache"))
    first = numc_run("compile", folder / "matmul.mlir", "-o", "a.numc")
    second = numc_run("compile", folder / "matmul.mlir", "-o", "b.numc")
    assert not first.out.endswith(", cached\n")
    assert second.out.endswith(" s, cached\n")
    assert Path("a.numc").read_bytes() == Path("b.numc").read_bytes()
    for option, cached in (("--json", True), ("--no-cache", False), ("--dump-dir=dump", False)):
        done = numc_run("compile", folder / "matmul.mlir", "--json", option, "-o", "c.numc")
        assert json.loads(done.out)["cached"] is cached
        assert Path("c.numc").read_bytes() == Path("a.numc").read_bytes()


def test_cache_info_and_clear(numc_run, folder, monkeypatch, tmp_path):
    monkeypatch.setenv("NUMC_CACHE_DIR", str(tmp_path / "cache"))
    assert json.loads(numc_run("cache", "info", "--json").out)["programs"] == []
    numc_run("compile", folder / "matmul.mlir", "--fma", "mp", "-o", "a.numc")
    (row,) = json.loads(numc_run("cache", "info", "--json").out)["programs"]
    assert (row["model"], row["fma"]) == (str(folder / "matmul.mlir"), "mp")
    table = numc_run("cache", "info")
    assert table.out.splitlines()[0] == "model\tfma\tops\ttarget\tbytes\tused"
    assert table.err.startswith(f"{tmp_path / 'cache'}: 1 programs, ")
    cleared = numc_run("cache", "clear").out
    assert cleared.startswith("removed 1 programs, ")
    assert cleared.endswith(f" from {tmp_path / 'cache'}\n")
    assert numc_run("cache", "clear").out.startswith("removed 0 programs, 0 bytes")
    monkeypatch.setenv("NUMC_CACHE_SIZE", "-1")
    assert numc_run("cache", "info").error == (
        "NUMC_CACHE_SIZE: got '-1', want a number of bytes such as 500M or 2G, or 0 for no cache"
    )


def test_calibrated_on_a_file(numc_run):
    """The digits' MLP: scales from 100 of the images."""
    digits = np.load(DIGITS / "heldout.npz")
    images = digits["images"].reshape(-1, 64)
    np.savez("some.npz", x=images[:100])
    done = numc_run("compile", DIGITS / "mlp.onnx", "--fma", "int8", "--calibrate", "some.npz", "-o", "int8.numc")
    assert (done.status, done.err) == (0, "")
    program = numc.load("int8.numc")
    assert program.manifest["calibrated"]
    assert (np.asarray(program(images)).argmax(1) == digits["labels"]).mean() > 0.9


def test_calibration_data_that_is_no_set_of_inputs(numc_run, folder):
    np.save("x.npy", np.zeros(3, np.float32))
    np.savez("y.npz", y=np.zeros(3, np.float32))
    model = folder / "matmul.mlir"
    for data, message in (
        ("x.npy", "x.npy: one array without a name: want an .npz file with the inputs by name"),
        ("none.npz", "none.npz: cannot read: No such file or directory: want a .npy or .npz file"),
    ):
        done = numc_run("compile", model, "--fma", "int8", "--calibrate", data)
        assert (done.status, done.error) == (2, message)
    done = numc_run("compile", model, "--fma", "int8", "--calibrate", "y.npz")
    assert done.status == 2
    assert done.error.startswith("calibration data: ")
    done = numc_run("compile", model, "--fma", "int8", "--calibrate", "y.npz", "--emit", "numc")
    assert done.error == "--emit writes IR text, --calibrate makes a program: leave one of them out"


def test_an_export_with_a_runtime_and_without(numc_run):
    done = numc_run("export", "m.numc", "--shared", "libm.so", "--runtime", "libnumc_runtime.so", "--no-runtime")
    assert (done.status, done.err) == (2, "numc: error: --no-runtime copies no runtime: leave --runtime out\n")
