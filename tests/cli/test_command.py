"""The command as a whole: lists, help, exit statuses, and that it starts without what it does not need."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import types
from importlib.util import find_spec
from pathlib import Path

import pytest

import numc
from numc.cli import cli
from numc.compiler.pipeline import STAGES
from numc.compiler.targets import TARGETS
from numc.numerics.datapaths import DATAPATHS
from numc.numerics.formats import FORMATS
from numc.numerics.kinds import GROUP_FORMATS
from numc.numerics.operators import FMAS
from numc.numerics.policy.presets import PRESETS
from numc.numerics.units import UNITS
from numc.support.errors import CompilerBug, NumcError
from numc.support.files import check_writable
from rooms import ROOMS

ROOT = str(Path(numc.__file__).parents[1])


def _python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {ROOT!r})\n{code}", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


FMAC2 = [f"fma(a={name},acc=fp32,datapath=fmac2)" for name in ("msfp12", "lowbfp", "midbfp", "highbfp")]


def test_passes_of_fmac2(numc_run):
    rows = {row["name"]: row["passes"] for row in json.loads(numc_run("list", "fmas", "--json").out)}
    assert [rows[name] for name in (*FMAC2, "highbfp", "bf16_2_2{4}")] == [4, 1, 4, 4, 1, 1]


@pytest.mark.parametrize(
    ("what", "key", "want"),
    [
        ("formats", "name", [*FORMATS, *GROUP_FORMATS]),
        ("fmas", "name", [*FMAS, *GROUP_FORMATS, *FMAC2]),
        ("datapaths", "datapath", [admits.syntax(name) for name, admits in DATAPATHS.items()]),
        ("units", "unit", list(UNITS)),
        ("machines", "machine", ["fast", "thesis", "vpgpu"]),
        ("presets", "preset", list(PRESETS)),
        ("stages", "stage", list(STAGES)),
        ("passes", "pass", [name for stage in STAGES.values() for name in stage]),
        ("targets", "target", list(TARGETS)),
    ],
)
def test_lists_have_every_entry_in_order(numc_run, what, key, want):
    rows = json.loads(numc_run("list", what, "--json").out)
    assert [row[key] for row in rows] == want
    lines = numc_run("list", what).out.splitlines()
    assert [line.split("\t")[0] for line in lines] == [key, *want]
    assert all(all(cell for cell in line.split("\t")) for line in lines), "an empty cell"


def test_every_pass_says_what_it_does_itself(numc_run):
    """A line of its own for each, also for passes that a switch can leave out, and the text of upstream passes."""
    rows = {row["pass"]: row["what"] for row in json.loads(numc_run("list", "passes", "--json").out)}
    assert len(set(rows.values())) == len(rows)
    assert rows["skip-zeros"].startswith("Let contractions of operands with zeros between their elements")
    assert rows["merge-products"].startswith("Make contractions of one operand with adjacent slices")
    assert rows["copies"].endswith("Upstream: func.func(refback-munge-memref-copy)")


def test_the_numbers_of_formats_and_the_chains_of_fmas(numc_run):
    formats = {row["name"]: row for row in json.loads(numc_run("list", "formats", "--json").out)}
    assert {k: formats["fp16"][k] for k in ("emin", "emax", "max", "min_normal", "min_subnormal")} == {
        "emin": -14, "emax": 15, "max": 65504.0, "min_normal": 2.0**-14, "min_subnormal": 2.0**-24
    }  # fmt: skip
    assert formats["dlfloat16"]["min_subnormal"] is None
    fmas = {row["name"]: row for row in json.loads(numc_run("list", "fmas", "--json").out)}
    assert [fmas["bf16_2_2{4}"][key] for key in ("area", "iso-area")] == [256, 2.25]
    assert fmas["bf16_2_2{3}"]["chain"] == "a1*b0 + a0*b1 + a0*b0 + c"


def test_bits_per_value_of_groups(numc_run):
    """FAST states 3.2 and 6.4 for 2 and 4 magnitude bits; JSON has the whole number."""
    rows = {row["name"]: row["bits_per_value"] for row in json.loads(numc_run("list", "formats", "--json").out)}
    assert [rows[name] for name in ("lowbfp", "highbfp", "mxfp4", "int8", "fp16")] == [3.1875, 6.375, 4.25, 8, 16]
    cells = dict(line.split("\t")[:2] for line in numc_run("list", "formats").out.splitlines())
    assert [cells[name] for name in ("lowbfp", "highbfp", "mxfp4", "int8")] == ["3.2", "6.4", "4.25", "8"]


def test_formats_with_groups_are_refused_for_other_operations_in_one_line(numc_run, folder):
    done = numc_run("compile", folder / "matmul.mlir", "--ops", "mxint8")
    assert done.status == 2
    assert done.error.startswith("format 'mxint8': a format with groups is for the operands of an FMA operator, ")


def test_version(numc_run):
    assert numc_run("--version").out == f"numc {numc.__version__}\n"


@pytest.mark.parametrize("command", sorted(cli.commands))
def test_help_has_examples(numc_run, command):
    done = numc_run(command, "--help")
    assert done.status == 0
    assert f"  numc {command} " in done.out.split("Examples:")[1]


def test_limits_are_options_too(numc_run, folder, monkeypatch):
    monkeypatch.setenv("NUMC_IMPORT_TIME", "500")
    compiled = "compile", "mlp.onnx", "--no-cache", "-o", "limited.numc"
    shutil.copy(Path(__file__).parents[2] / "examples/digits/mlp.onnx", "mlp.onnx")
    for option, value, text in (
        ("--import-time", "0", "NUMC_IMPORT_TIME=0: a number of seconds is wanted, more than 0"),
        ("--import-memory", "x", "NUMC_IMPORT_MEMORY=x: a number of GiB is wanted, 1 or more"),
    ):
        done = numc_run(option, value, *compiled)
        assert (done.status, done.err) == (2, f"numc: error: mlp.onnx: {text}\n")
    assert os.environ["NUMC_IMPORT_TIME"] == "500"
    assert "NUMC_IMPORT_MEMORY" not in os.environ
    assert numc_run("--import-time", "60", "--import-memory", "2", *compiled).status == 0


def test_unknown_commands_and_lists(numc_run):
    done = numc_run("compil")
    assert done.status == 2
    assert "No such command 'compil'" in done.error
    assert "table 'x': unknown: want formats, fmas" in numc_run("list", "x").error


def _fails(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("numc.compiler.programs.compile.to_file", fail)


def test_a_fault_of_the_compiler_exits_1(numc_run, folder, monkeypatch):
    _fails(monkeypatch, CompilerBug("pass 'x' failed"))
    done = numc_run("compile", folder / "matmul.mlir")
    assert (done.status, done.error) == (1, "pass 'x' failed")


def test_any_other_exception_leaves_a_traceback_in_a_file(numc_run, folder, monkeypatch, tmp_path_factory):
    kept = tmp_path_factory.mktemp("kept")
    monkeypatch.setattr(tempfile, "tempdir", str(kept))
    _fails(monkeypatch, ZeroDivisionError("two\nlines"))
    done = numc_run("compile", folder / "matmul.mlir", "-o", "a b.numc")
    assert done.status == 1
    assert not list(Path().iterdir()), "nothing is left in the working folder"
    (file,) = kept.glob("numc-failure-*/traceback.txt")
    fault = "this is a fault of numc: report it with the output of `numc doctor`"
    assert done.error == f"ZeroDivisionError: two\\nlines; {fault} and {file}"
    assert f"reproduce with: numc compile {folder / 'matmul.mlir'} -o 'a b.numc'" in file.read_text()
    assert "ZeroDivisionError: two\nlines" in file.read_text()


def test_an_interrupt_exits_130(numc_run, folder, monkeypatch):
    _fails(monkeypatch, KeyboardInterrupt())
    done = numc_run("compile", folder / "matmul.mlir")
    assert (done.status, done.err.strip()) == (130, "numc: error: interrupted")


def test_sigterm_cleans_up_and_exits_143(numc_run, folder, monkeypatch):
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(os, "fsync", lambda _: os.kill(os.getpid(), signal.SIGTERM))  # when a file is almost written
    done = numc_run("compile", folder / "matmul.mlir", "--no-cache")
    assert (done.status, done.error) == (143, "terminated")
    assert list(Path().iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) == before


def test_running_a_program_imports_no_compiler(folder):
    done = _python(
        "from numc.cli import main\nstatus = main(sys.argv[1:])\n"
        "assert not {'torch_mlir', 'onnx', 'torch', 'lark', 'rich'} & {m.split('.')[0] for m in sys.modules}\n"
        "sys.exit(status)",
        *("run", folder / "mlp.numc", "--random-input", 0),
    )
    assert (done.returncode, done.stdout.splitlines()[1].split("\t")[:2]) == (0, ["logits", "1x10"]), done.stderr


def test_importing_numc_imports_nothing_else():
    done = _python("import numc; print([m for m in sys.modules if m.startswith(('numc.', 'numpy', 'torch', 'onnx'))])")
    assert done.stdout == "[]\n", done.stderr


def test_every_public_name_is_there():
    names = set(numc.__all__) - (set(numc._NEED_TORCH) if find_spec("torch") is None else set())
    assert {name for name in names if getattr(numc, name, None) is None} == set()
    assert (numc.formats, numc.fmas) == (FORMATS, FMAS)
    assert dir(numc) == sorted(numc.__all__)
    assert {name for name in vars(numc) if not name.startswith("_")} - set(numc.__all__) <= set(ROOMS)
    assert set(numc.__all__) & set(ROOMS) == {"train"}  # a folder that is imported takes the place of a name
    with pytest.raises(AttributeError, match="module 'numc' has no attribute 'nothing'"):
        numc.nothing  # noqa: B018


@pytest.mark.parametrize(("reader", "out"), [("head -1", "pass\tstage\twhat\n"), ("true", "")])
def test_python_m_numc_and_a_closed_pipe(reader, out):
    command = f"{sys.executable} -m numc list passes | {reader}"
    env = {"PYTHONPATH": ROOT, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, env=env, check=False)
    assert (done.stdout, done.stderr) == (out, "")


def test_a_terminal_gets_tables_that_shorten_nothing():
    """The smallest usual terminal: every number is complete."""
    pytest.importorskip("pty")
    done = _python(
        "import os, pty\n"
        "pid, terminal = pty.fork()\n"
        "if pid == 0:\n"
        "    from numc.cli import main\n"
        "    os.environ['COLUMNS'] = '80'\n"
        "    os._exit(main(['list', 'formats']))\n"
        "text = b''\n"
        "try:\n"
        "    while piece := os.read(terminal, 4096): text += piece\n"
        "except OSError: pass\n"
        "print(text.decode())"
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["mxfp8_e4m3", "8.25", "4", "-", "-", "-", "-", "-"] in rows
    assert ["fp32", "32", "24", "-126", "127", "3.40282e+38", "2^-126", "2^-149"] in rows, done.stderr
    assert ["dlfloat16", "16", "10", "-30", "31", "4.29077e+09", "2^-30", "-"] in rows
    assert "…" not in done.stdout
    assert "\t" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            "compile x.mlir --fma nosuch",
            "unknown FMA operator 'nosuch': want a name of 'numc list fmas' or 'numc list ",
        ),
        ("compile x.mlir --fma bf17", "unknown FMA operator 'bf17' (did you mean 'fmac(bf16)'?): want a name of 'numc"),
        ("compile x.mlir --fma hopper_bf17", "(did you mean 'hopper_bf16', 'hopper_fp16' or 'hopper_tf32'?): want a "),
        (
            "compile x.mlir --ops bf17",
            "unknown format 'bf17' (did you mean 'bf16', 'bf16x3' or 'bf16x2'?): want a name",
        ),
        ("compile x.mlir --dump-dir a/b", "a/b: cannot write: there is no folder a: create it first"),
        ("list fma", "table 'fma': unknown (did you mean 'fmas' or 'formats'?): want formats, fmas, units, datapaths"),
        ("compare . --tokens x.txt --length 8 --metric ppl", "unknown metric 'ppl': want top1, top5, mse, cosine, p"),
    ],
)
def test_words_of_mistakes_are_few_and_near(numc_run, folder, arguments, said):
    shutil.copy(folder / "matmul.mlir", "x.mlir")
    refused = numc_run(*arguments.split())
    assert refused.status == 2
    assert said in refused.error
    assert len(refused.error) < 330


def test_what_is_suggested_is_accepted(numc_run, folder):
    shutil.copy(folder / "matmul.mlir", "x.mlir")
    assert numc_run("compile", "x.mlir", "--fma", "fmac(bf16)").status == 0


def test_a_read_only_file_system_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(NumcError, match="out.numc: cannot write: permission denied: name another place"):
        check_writable(tmp_path / "out.numc")
    monkeypatch.setattr(os, "statvfs", lambda _: types.SimpleNamespace(f_flag=os.ST_RDONLY))
    with pytest.raises(NumcError, match="out.numc: cannot write: its file system is read-only: name another place"):
        check_writable(tmp_path / "out.numc")


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("numc compile x.onnx --fma hopper_bf", ["hopper_bf16"]),
        ("numc compare x.onnx --fma mp,bf16_1_", ["mp,bf16_1_1", "mp,bf16_1_2", "mp,bf16_1_3"]),
        ("numc compile x.onnx --ops bf16x", ["bf16x2", "bf16x3"]),
    ],
)
def test_a_shell_completes_operators_and_formats(words, completed):
    variables = {
        **os.environ,
        "_NUMC_COMPLETE": "bash_complete",
        "COMP_WORDS": words.replace(" ", "\n"),
        "COMP_CWORD": "4",
    }
    done = subprocess.run([sys.executable, "-m", "numc"], env=variables, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == completed


def test_samples_that_contractions_do_not_have(numc_run, folder):
    shutil.copy(folder / "matmul.mlir", "x.mlir")
    said = numc_run("verify", "x.mlir", "--random-input", "0", "--batch", "2", "--samples", "200").out
    assert "0 mismatches in 6 outputs checked, not 200: contractions with fewer outputs" in said
    said = numc_run("verify", "x.mlir", "--random-input", "0", "--batch", "100", "--samples", "200").out
    assert said.endswith("0 mismatches in 200 outputs checked\n")
