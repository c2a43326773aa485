"""numc opt: resuming at a dump, single passes, and names that do not exist."""

from __future__ import annotations

import re
import shlex
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import numc
from numc.cli import main
from numc.compiler import opt
from numc.compiler.opt import split_passes
from numc.compiler.pipeline import STAGES
from numc.frontends.parse import parse_module
from numc.support.errors import NumcError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def dump(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("dump")
    command = ["compile", folder / "matmul.mlir", "--fma", "bf16_1_1", "--dump-dir", path, "-o", path / "m.numc"]
    assert main([str(a) for a in command]) == 0
    return path


def _code(text: str) -> list[str]:
    """The text without locations, which name the file that was read, and without what it says of itself."""
    text = re.sub(r'(, )?numc\.stage = "\w+"(?:, (?=\w))?', "", text).replace("module attributes {} {", "module {")
    return [line.split(" loc(")[0] for line in text.splitlines() if not line.startswith("#loc")]


@pytest.mark.parametrize(
    ("after", "to"),
    [
        ("linalg", "numc"),
        ("numc", "tensors"),
        ("tensors", "buffers"),
        ("buffers", "plan"),
        ("numc", "llvm"),
        ("plan", "kernels"),
        ("kernels", "llvm"),
        ("vector", "loops"),
        ("loops", "llvm"),
    ],
)
def test_a_dump_resumes_to_what_the_compiler_made(numc_run, dump, after, to):
    done = numc_run("opt", dump / f"{after}.mlir", "--from", after, "--to", to, "--fma", "bf16_1_1")
    assert (done.status, done.err) == (0, "")
    assert _code(done.out) == _code((dump / f"{to}.mlir").read_text())


def test_the_passes_of_a_stage_by_name_are_the_stage(numc_run, dump):
    names = ",".join(STAGES["numc"])
    assert numc_run("opt", dump / "linalg.mlir", "--passes", names, "--fma", "bf16_1_1", "-o", "x.mlir").out == ""
    assert _code(Path("x.mlir").read_text()) == _code((dump / "numc.mlir").read_text())


def test_passes_of_parts_on_operations_in_python(numc_run, dump):
    assert "numc.fma" in numc_run("opt", dump / "numc.mlir", "--passes", "lower").out


def test_upstream_pass_text_with_options(numc_run, dump):
    passes = "one-shot-bufferize{bufferize-function-boundaries allow-unknown-ops},func.func(cse)"
    done = numc_run("opt", dump / "numc.mlir", "--passes", passes)
    assert "memref" in done.out
    assert "numc.fma" in done.out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["--passes", "bufferise"],
            "--passes 'bufferise': no such pass (did you mean 'bufferize'?): see `numc list passes`",
        ),
        (["--passes", "canonicalise"], "--passes 'canonicalise': no such pass (did you mean 'canonicalize'"),
        (["--passes", "one-shot-bufferize{x=1}"], "no such option x"),
        (["--passes", "cse,,cse"], "--passes 'cse,,cse': an empty name"),
        (["--passes", "a{b"], "--passes 'a{b': unbalanced brackets"),
        (["--passes", "cse", "--to", "llvm"], "--passes runs exactly the passes it names: leave --from and --to out"),
        (
            ["--from", "nmuc"],
            "--from 'nmuc': no such stage (did you mean 'numc'?): "
            "want linalg, numc, tensors, buffers, plan, kernels, vector, loops, llvm",
        ),
        (["--to", "x"], "--to 'x': no such stage: want linalg,"),
        (
            ["--from", "llvm", "--to", "numc"],
            "--from llvm --to numc: nothing to run: the stages are linalg, numc, tensors, buffers, plan, "
            "kernels, vector, loops, llvm",
        ),
        (["--from", "linalg", "--fma", "pm"], "pm"),
        (["-o", "none/x.mlir"], "none/x.mlir: cannot write: there is no folder none"),
    ],
)
def test_errors_are_one_line(numc_run, folder, arguments, text):
    done = numc_run("opt", folder / "matmul.mlir", *arguments)
    assert text in done.error
    assert done.status == 2


def test_a_dump_of_another_stage(numc_run, dump):
    done = numc_run("opt", dump / "numc.mlir", "--from", "buffers")
    assert done.error == f"--from buffers: {dump}/numc.mlir is IR after the stage 'numc': want --from numc"
    assert numc_run("opt", dump / "plan.mlir").error == (
        f"{dump}/plan.mlir: is IR after the stage 'plan', and without --from it is taken for a model: add --from plan"
    )
    assert numc_run("compile", dump / "plan.mlir").error == (
        f"{dump}/plan.mlir: is IR after the stage 'plan', and no model: go on from it with `numc opt --from plan`"
    )


def test_ir_without_its_weights_is_no_model(numc_run, folder):
    assert numc_run("compile", EXAMPLES / "digits/mlp.onnx", "--emit", "linalg", "-o", "mlp.mlir").status == 0
    assert numc_run("compile", "mlp.mlir").error == (
        "mlp.mlir: is IR of a model whose weights are not in it ('0.weight', '0.bias', '2.weight', ...): "
        "compile the model, or go on with `numc opt --from STAGE`"
    )
    # Without weights, the first stage is a model again.
    assert numc_run("compile", folder / "matmul.mlir", "--emit", "linalg", "-o", "linalg.mlir").status == 0
    assert numc_run("compile", "linalg.mlir", "-o", "m.numc").status == 0


def test_a_text_that_does_not_parse_shows_the_place(numc_run):
    Path("bad.mlir").write_text(
        "func.func @main(%a: f32) -> f32 {\n  %b = arith.addf %a, %c : f32\n  return %b : f32\n}\n"
    )
    done = numc_run("compile", "bad.mlir")
    assert (done.status, done.err) == (
        2,
        "numc: error: bad.mlir:2:23: not valid MLIR of this version: use of undeclared SSA value name\n"
        "  %b = arith.addf %a, %c : f32\n"
        "                      ^\n",
    )
    long = f"func.func @main() {{ {'':200}return %c : f32 }}"
    with pytest.raises(NumcError, match=r"^x:1:\d+: .*\n.{1,120}\n *\^$"):
        parse_module(long, "x")


def test_opt_in_python(dump):
    explicit = numc.opt(dump / "linalg.mlir", ["explicit-arithmetic", "tidy-conversions"], fma="bf16_1_1")
    assert "bf16_1_1" in str(explicit)
    again = numc.opt(explicit, "bufferize,cse")
    assert "memref" in str(again)
    assert "memref" not in str(explicit)
    assert "linalg.generic" in str(numc.opt((dump / "linalg.mlir").read_text(), "canonicalize"))
    with pytest.raises(NumcError, match="no such pass"):
        numc.opt(explicit, ["bufferise"])


def test_a_pass_from_outside(numc_run, dump, monkeypatch):
    """By an entry point, as an installed package has it."""
    entries = [
        EntryPoint("count-products", "outside_pass:count", opt.GROUP),
        EntryPoint("broken", "no_such_module:f", opt.GROUP),
        EntryPoint("canonicalize-all", "outside_pass:count", opt.GROUP),
    ]
    monkeypatch.setattr(opt, "entry_points", lambda group: entries)
    assert "test.products = 1" in numc_run("opt", dump / "numc.mlir", "--passes", "count-products,cse").out
    assert "count-products\t\tFrom outside: outside_pass:count" in numc_run("list", "passes").out
    assert numc_run("opt", dump / "numc.mlir", "--passes", "broken").error == (
        "--passes 'broken': no_such_module:f cannot be imported: No module named 'no_such_module'"
    )
    assert "did you mean 'count-products'" in numc_run("opt", dump / "numc.mlir", "--passes", "count-product").error


def test_a_missing_file(numc_run):
    assert numc_run("opt", "no.mlir").error.startswith("no.mlir: cannot read: No such file or directory")


def test_a_pass_that_fails_says_how_to_reproduce_it(numc_run):
    Path("bad.mlir").write_text("""
        func.func @main(%t: tensor<4xf32>) -> tensor<4xf32> {
          %0 = builtin.unrealized_conversion_cast %t : tensor<4xf32> to memref<4xf32>
          %1 = builtin.unrealized_conversion_cast %0 : memref<4xf32> to tensor<4xf32>
          return %1 : tensor<4xf32>
        }""")
    done = numc_run("opt", "bad.mlir", "--passes", "one-shot-bufferize", "--fma", "mp")
    assert done.status == 1
    reason, command = done.error.split("; reproduce with: numc ")
    assert "op was not bufferized" in reason
    again = numc_run(*shlex.split(command))
    assert (again.status, again.error.split("; reproduce with")[0]) == (1, reason)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("a", ["a"]),
        ("a, b", ["a", "b"]),
        ("a{x=1,2},func.func(b,c),d", ["a{x=1,2}", "func.func(b,c)", "d"]),
    ],
)
def test_passes_split_outside_brackets(text, steps):
    assert split_passes(text) == steps


@pytest.mark.parametrize("text", ["", "a)", "a,", "f(a"])
def test_passes_that_do_not_split(text):
    with pytest.raises(NumcError, match=f"^passes '{re.escape(text)}': "):
        split_passes(text)
    with pytest.raises(NumcError, match="^--passes '"):
        split_passes(text, "--passes")


def test_errors_in_python_name_the_argument(dump):
    with pytest.raises(NumcError, match="^passes 'bufferise': no such pass .did you mean 'bufferize'"):
        numc.opt(dump / "numc.mlir", ["canonicalize", "bufferise"])


def test_most_passes_need_no_main(numc_run, folder):
    (folder / "f.mlir").write_text((folder / "matmul.mlir").read_text().replace("@main", "@f"))
    passes = "generalize,explicit-arithmetic,bufferize,plan-kernels,emit-kernels"
    done = numc_run("opt", folder / "f.mlir", "--passes", passes)
    assert (done.status, done.err) == (0, "")
    assert "call @layer_contraction" in done.out
    done = numc_run("opt", folder / "f.mlir", "--to", "llvm")
    assert done.status == 2
    assert "the module has no function @main: want one" in done.error


def test_a_plan_is_printed_edited_and_resumed(numc_run, folder, dump):
    plan = numc_run("compile", folder / "matmul.mlir", "--fma", "bf16_1_1", "--emit", "plan").out
    assert _code(plan) == _code((dump / "plan.mlir").read_text())
    assert "k_block = 256 : i64" in plan
    Path("edited.mlir").write_text(plan.replace("k_block = 256", "k_block = 64"))
    edited = numc_run("opt", "edited.mlir", "--from", "plan", "--to", "vector", "--fma", "bf16_1_1")
    assert (edited.status, edited.err) == (0, "")
    assert "x64_" in edited.out
    assert _code(edited.out) != _code((dump / "vector.mlir").read_text())


def test_an_impossible_plan_is_refused(numc_run, dump):
    Path("edited.mlir").write_text((dump / "plan.mlir").read_text().replace("k_block = 256", "k_block = 65"))
    done = numc_run("opt", "edited.mlir", "--from", "plan", "--fma", "bf16_1_1")
    assert done.status == 2
    assert "numc.plan: tile.k_block = 65: want a multiple of 32 up to 32768" in done.error


def test_lower_takes_modules():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    module, x = torch.nn.Linear(3, 2), torch.ones(4, 3)
    assert "bf16_1_1" in str(numc.lower(module, (x,), fma="bf16_1_1"))
    exported = torch.export.export(module, (x,))
    assert "linalg.generic" in str(numc.lower(exported, to="linalg"))
    with pytest.raises(NumcError, match="cannot lower a int: want a file name"):
        numc.lower(3)
