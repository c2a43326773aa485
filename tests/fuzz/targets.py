"""What is fuzzed. Each kind makes a case from a number and says what became of it; anything unforeseen is a Finding.

KINDS is the table. A case that is right ends in an answer, or in a NumcError of one line.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import random
import shutil
import signal
import struct
import tempfile
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import numc
from fuzz.differential import OPERATORS as OF_MODELS
from fuzz.differential import Finding, check_graph, graph_of
from fuzz.graphs import OPERATORS as GRAPH_OPERATORS
from fuzz.graphs import random_graph
from fuzz.modes import modes
from fuzz.modules import check_module
from fuzz.mutants import damaged, edits_of_bytes, edits_of_text, rewritten
from fuzz.run_time import products, values
from fuzz.special import special
from numc.numerics import grammar
from numc.numerics.formats import FORMATS
from numc.numerics.operators import FMAS
from numc.numerics.policy.layer import Layer
from numc.numerics.policy.text import parse_policy
from numc.runtime.library import ErrorText, library
from numc.studies.ddmin import ddmin
from numc.support.errors import NumcError, ParseError

ROOT = Path(__file__).resolve().parents[2]
LONGEST_MESSAGE = 2000


class Kind(Protocol):
    """One kind of cases: returns what became of case `number`, in a word or two."""

    def __call__(self, number: int) -> str: ...


@cache
def folder() -> Path:
    """A folder of this process for the files of its cases."""
    import atexit

    made = Path(tempfile.mkdtemp(prefix="numc-fuzz-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def judge(run: Callable[[], object], what: str, lines: int = 1) -> str:
    """Run and return "answered" or "refused"; raise Finding for any error that a user must not see."""
    try:
        run()
    except ParseError as error:
        lines, text = 3, str(error)
    except NumcError as error:
        text = str(error)
    except Exception as error:
        raise Finding(f"{type(error).__name__}: {str(error)[:200]!r} from {what}") from error
    else:
        return "answered"
    if not text.strip() or len(text.split("\n")) > lines or len(text) > LONGEST_MESSAGE:
        raise Finding(
            f"a message of {len(text.splitlines())} lines and {len(text)} characters, {text[:120]!r}, from {what}"
        )
    return "refused"


def reduced(edits: Sequence[Any], run: Callable[[Sequence[Any]], str]) -> str:
    """Run all edits; on a Finding raise that of the fewest edits that still give one."""
    try:
        return run(edits)
    except Finding:
        pass

    def still(some: Sequence[Any]) -> bool:
        try:
            run(some)
        except Finding:
            return True
        return False

    return run(ddmin(list(edits), still))


# Texts.

CALLS = ("fma(a=bf16,b=e4m3fn,acc=fp32)", "fma(a=bf16,acc=bf16x2,datapath=exact)", "mac(fp16)", "fmac(bf16,chunk=5)",
         "fma(a=bf16x2,acc=bf16x2,products=3,datapath=exact)", "bfp(5,2,4)",
         "fma(a=bfp(16,3,4):sr8,b=bfp(16,3,4),acc=fp32)",
         "fma(a=int8:channel,acc=fp32)", "e5m2:rtz:nan", "mac(bf16:sr8.lfsr)", "1/4/3/d", "bf16_2_2{3}")  # fmt: skip
OPERATORS = (*FMAS, *FORMATS, *CALLS)
WORDS = (*OPERATORS, "a=", "b=", "acc=", "chunk=", "products=", "datapath=", ":rtz", ":rne", ":sr24", ":nan", "(", ")",
         ",", "{2}", "x2", "default ", "layer ", "op ", "role ", "format ", "fma ", " where ", " and ", " or ", "..",
         '"*"', "m > 3", "-1", "99999999999999999999")  # fmt: skip
POLICY = """\
# a policy
format act   = e4m3fn
fma    acc2  = fma(a=bf16, b=bf16, acc=bf16x2)
default                      fma = bf16_1_1, ops = fp32
layer "conv1", "fc*"         fma = mp
layer 0..2, -1               fma = fp32
op softmax, batch_norm       fp32
op matmul where k > 2048 and (m <= 4 or n != 3)     fma = acc2
role dgrad, wgrad            a = act:rtz, b = bf16
role update                  fp32
"""
LAYERS = [
    Layer("conv1", ("conv",), "forward", False, 0, (("m", None), ("n", 8), ("k", 9))),
    Layer("fc", ("matmul", "gemm"), "wgrad", False, 1, (("m", 4), ("n", 10), ("k", 4096))),
    Layer("soft", ("softmax",), "forward"),
]


def check_operator(text: str) -> None:
    """What is accepted has a text that means the same."""
    for parse in (grammar.parse_any_conversion, grammar.parse_fma):
        with contextlib.suppress(NumcError):
            found = parse(text)
            if parse(str(found)) != found:
                raise Finding(f"{text!r} is '{found}', which is something else")


def operators(number: int) -> str:
    """Texts of formats and operators."""
    rng = random.Random(f"operators {number}")
    seed = rng.choice(OPERATORS)
    edits = edits_of_text(rng, seed, WORDS)

    def run(some: Sequence[Any]) -> str:
        text = rewritten(seed, some)
        judge(lambda: check_operator(text), f"the operator {text[:200]!r}")
        return judge(lambda: grammar.parse_fma(text), f"the operator {text[:200]!r}")

    return reduced(edits, run)


def policies(number: int) -> str:
    """Texts of policies: parsed, and asked about some layers."""
    rng = random.Random(f"policies {number}")
    lines = POLICY.splitlines(keepends=True)
    seed = "".join(rng.sample(lines, rng.randrange(1, 5)))
    edits = edits_of_text(rng, seed, WORDS)

    def run(some: Sequence[Any]) -> str:
        text = rewritten(seed, some)
        return judge(lambda: parse_policy(text).decide(LAYERS), f"the policy {text[:300]!r}")

    return reduced(edits, run)


# Program files.

_HEADER, _ENTRY, _NAME, _CHECKSUM_AT = 64, 48, 24, 24


def resealed(data: bytes) -> bytes:
    """The same program file with checksums that are right, so that what lies behind them is read."""
    if len(data) < _HEADER:
        return data
    made = bytearray(data)
    struct.pack_into("<Q", made, 16, len(made))
    count = min(struct.unpack_from("<I", made, 12)[0], (len(made) - _HEADER) // _ENTRY)
    for n in range(count):
        at = _HEADER + n * _ENTRY + _NAME
        offset, size = struct.unpack_from("<QQ", made, at)
        struct.pack_into("<I", made, at + 16, zlib.crc32(made[offset : offset + size]))
    struct.pack_into("<I", made, _CHECKSUM_AT, 0)
    table = made[_HEADER : _HEADER + count * _ENTRY]
    struct.pack_into("<I", made, _CHECKSUM_AT, zlib.crc32(table, zlib.crc32(made[:_HEADER])))
    return bytes(made)


@cache
def program_files() -> tuple[bytes, ...]:
    import runtime_programs as programs

    path = folder() / "seed.numc"
    found = []
    for make in (programs.add, programs.add_packed, programs.parallel, programs.odd_results):
        numc.runtime.write_program(path, make())
        found.append(path.read_bytes())
    return tuple(found)


def _section(data: bytes, wanted: str) -> tuple[int, int]:
    for n in range(struct.unpack_from("<I", data, 12)[0]):
        at = _HEADER + n * _ENTRY
        if data[at : at + _NAME].rstrip(b"\0").decode() == wanted:
            offset, size = struct.unpack_from("<QQ", data, at + _NAME)
            return offset, size
    raise AssertionError(wanted)


def programs(number: int) -> str:
    """Damaged program files, loaded by Python and C. Code that was damaged is loaded, but not run."""
    rng = random.Random(f"programs {number}")
    seed = rng.choice(program_files())
    place = rng.choice([None, "abi", "code", "manifest", "ir", "header"])
    start, size = 0, len(seed)
    if place == "header":
        size = _HEADER + 5 * _ENTRY
    elif place is not None:
        start, size = _section(seed, place)
    edits = [(kind, start + at, value) for kind, at, value in edits_of_bytes(rng, size)]
    if place is not None:  # what lies behind stays where it is
        edits = [edit for edit in edits if edit[0] in ("flip", "set")]
    seal = rng.random() < 0.9
    path = folder() / "p.numc"

    def load(data: bytes) -> None:
        path.write_bytes(data)
        program = numc.load(path)
        repr(program)
        assert isinstance(program.manifest, dict)
        if place in ("manifest", "ir"):
            inputs = {i.name: np.ones([2 if d is None else d for d in i.shape], i.dtype) for i in program.inputs}
            program(inputs)

    def load_memory(data: bytes) -> None:
        error = ErrorText()
        handle = library().numc_program_load_memory(data, len(data), error.reference())
        if not handle:
            raise NumcError(error.take())
        library().numc_program_free(ctypes.c_void_p(handle))

    def run(some: Sequence[Any]) -> str:
        data = damaged(seed, some)
        data = resealed(data) if seal else data
        judge(lambda: load_memory(data), f"a program file in memory, edits {some}")
        return judge(lambda: load(data), f"a program file, edits {some}")

    return reduced(edits, run)


def packed_weights(number: int) -> str:
    """Records of packed weights: expanding either fails, or writes as many numbers as it is asked for."""
    rng = random.Random(f"packed {number}")
    data = program_files()[1]
    start, size = _section(data, "abi")
    record = data[start : start + size]
    at = record.index(b"bias") + 4
    record = record[at : at + 36]  # the record is the last thing that an argument has
    edits = [e for e in edits_of_bytes(rng, len(record)) if e[0] in ("flip", "set")]
    count = rng.choice([0, 1, 4, 16, 64, 4096])

    def run(some: Sequence[Any]) -> str:
        changed = damaged(record, some)
        stored = np.zeros(rng.choice([0, 1, 4, 8, 64]), np.uint8)
        out = np.full(count + 16, 7.0, np.float32)
        error = ErrorText()
        code = library().numc_expand(
            changed, len(changed), stored.ctypes.data, stored.size, out.ctypes.data, count, error.reference()
        )
        if not (out[count:] == 7.0).all():
            raise Finding(f"numc_expand writes behind its {count} numbers, edits {some}")
        if code == 0:
            return "answered"
        return judge(lambda: _raise(error.take()), f"a packed weight, edits {some}")

    return reduced(edits, run)


def _raise(text: str) -> None:
    raise NumcError(text)


# ONNX files and MLIR texts.


@cache
def onnx_files() -> tuple[bytes, ...]:
    hostile = sorted((ROOT / "tests" / "data" / "hostile").glob("*.onnx"))
    small = [path.read_bytes() for path in hostile if path.stat().st_size < 4000 and not path.stem.startswith("blow")]
    graphs = [graph_of(n).model().SerializeToString() for n in range(40)]
    return (*small, *(data for data in graphs if len(data) < 4000))


def onnx_bytes(number: int) -> str:
    """Damaged ONNX files up to torch-mlir's importer, which has a process of its own."""
    from numc.frontends.onnx import prepare
    from numc.frontends.onnx.reading import read

    rng = random.Random(f"onnx {number}")
    seed = rng.choice(onnx_files())
    edits = edits_of_bytes(rng, len(seed), 3)
    path = folder() / "m.onnx"

    def prepared() -> None:
        found = read.read(path)
        prepare.prepare(found.model, {}, found.large)

    def run(some: Sequence[Any]) -> str:
        path.write_bytes(damaged(seed, some))
        return judge(prepared, f"an ONNX file, edits {some}", lines=1000)  # the worker makes one line of it

    return reduced(edits, run)


def onnx_files_compiled(number: int) -> str:
    """Damaged ONNX files, compiled as a user does, and run where that works."""
    rng = random.Random(f"onnx compiled {number}")
    seed = rng.choice(onnx_files())
    edits = edits_of_bytes(rng, len(seed), 3)
    path = folder() / "m.onnx"

    def compiled() -> None:
        program = numc.compile(path)
        inputs = {i.name: np.ones([2 if d is None else d for d in i.shape], i.dtype) for i in program.inputs}
        if sum(x.nbytes for x in inputs.values()) < 1 << 26:
            program.by_name(inputs)

    def run(some: Sequence[Any]) -> str:
        path.write_bytes(damaged(seed, some))
        return judge(compiled, f"an ONNX file that is compiled, edits {some}")

    return run(edits)


# Command lines.

_OPTIONS = ("--fma", "--ops", "--shape", "--target", "--policy", "--output", "-o", "--emit", "--input", "--batch",
            "--threads", "--random-input", "--seed", "--samples", "--json", "--data", "--stats", "--calibrate",
            "--pack-weights", "--no-cache", "--machine", "--passes", "--from", "--statistics", "--help",
            "--version", "--shared", "--name", "cmake")  # fmt: skip
_COMMANDS = ("compile", "run", "verify", "explain", "cost", "compare", "diff", "bisect", "opt", "list", "cache",
             "report", "export", "paths")  # fmt: skip
_VALUES = ("add.numc", "add.numc", "damaged.numc", "no.numc", "text.mlir", "x.npy", "x=x.npy", "data.npz", ".",
           "/dev/null",
           "out.numc", "no/such/out.numc", "-", "", "x=1x4", "x=ax4", "x=", "0", "-1", "1", "99999999999999999999",
           "nan",
           "numc", "linalg", "x86-64-v3", "host", "default mp", "layer 3 fp32", "fmas", "formats", "info", "clear",
           "all", "1/4", "swamping", *OPERATORS[:12])  # fmt: skip


@cache
def _working_folder() -> Path:
    place = folder() / "work"
    place.mkdir()
    (place / "add.numc").write_bytes(program_files()[0])
    (place / "damaged.numc").write_bytes(program_files()[0][:-3])
    (place / "text.mlir").write_text(
        "func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> { return %x : tensor<?x4xf32> }"
    )
    np.save(place / "x.npy", np.ones((2, 4), np.float32))
    np.savez(place / "data.npz", x=np.ones((2, 4), np.float32))
    return place


def command_lines(number: int) -> str:
    """Command lines of real and made-up words: exit status 0, 1 with a reason, or 2."""
    from numc.cli import main

    rng = random.Random(f"commands {number}")
    words = [rng.choice(_COMMANDS)]
    for _ in range(rng.randrange(7)):
        words.append(rng.choice(_OPTIONS) if rng.random() < 0.45 else rng.choice(_VALUES))
        if rng.random() < 0.1:
            words[-1] = rewritten(words[-1], edits_of_text(rng, words[-1], WORDS, 2))
    os.chdir(_working_folder())
    program_files()
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(words)
        except BaseException as error:
            raise Finding(f"{type(error).__name__}: {error} from `numc` {words}") from error
    text = err.getvalue()
    if "fault of numc" in text or "Traceback" in text or status not in (0, 1, 2) or list(Path().glob("numc-failure-*")):
        for left in Path().glob("numc-failure-*"):
            text += (left / "traceback.txt").read_text()[-600:]
            shutil.rmtree(left)
        raise Finding(f"status {status}, {text!r}, from `numc` {words}")
    return f"status {status}"


# Models, against other runtimes.


def graphs(number: int) -> str:
    """Random ONNX graphs against onnxruntime."""
    graph = graph_of(number)
    try:
        return check_graph(graph)[0]
    except Exception as error:
        nodes = [node.op_type for node in graph.nodes]
        raise Finding(f"{type(error).__name__}: {error} from a graph of {nodes}") from error


CONTRACTIONS = ("matmul", "matmul", "gemm", "einsum", "conv", "conv", "conv_transpose", "recurrent", "binary",
                "softmax",
                "layer_norm", "transpose", "pool", "unary_exact")  # fmt: skip


def guarded_runs(number: int) -> str:
    """One program run with many sizes: every operator in turn, on graphs and on products of matrices of any size."""
    rng = random.Random(f"guarded {number}")
    fma = OF_MODELS[number // 2 % len(OF_MODELS)]
    if number % 4 == 3:
        draw = np.random.default_rng(number)
        for seed in range(300):
            m, k, n = (rng.choice([0, 1, 2, 7, 8, 9, 16, 31, 64, 70]) for _ in range(3))
            a, b, c = (draw.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
            numc.matmul(a, b, c, fma=fma, seed=seed, threads=1 + seed % 3)
        return "300 runs"
    if number % 2 == 0:
        fma = "fp32"
    graph = random_graph(rng, among=tuple(GRAPH_OPERATORS) if fma == "fp32" else CONTRACTIONS, free=True)
    try:
        return f"{check_graph(graph, fma=fma, runs=250)[1]} runs"
    except Exception as error:
        nodes = [node.op_type for node in graph.nodes]
        raise Finding(f"{type(error).__name__}: {error} from a graph of {nodes} in {fma}") from error


def modules(number: int) -> str:
    """Random torch modules against eager torch."""
    return check_module(number)


def broken(number: int) -> str:
    """What is wrong in some cases: for the test of the fuzzers."""

    def fault() -> None:
        if number == 1:
            os.kill(os.getpid(), signal.SIGSEGV)
        if number == 2:
            raise ValueError("no")

    return judge(fault, f"case {number}")


KINDS: dict[str, Kind] = {
    "operators": operators,
    "policies": policies,
    "programs": programs,
    "packed": packed_weights,
    "onnx": onnx_bytes,
    "compiled": onnx_files_compiled,
    "commands": command_lines,
    "graphs": graphs,
    "guarded": guarded_runs,
    "modules": modules,
    "values": values,
    "products": products,
    "special": special,
    "modes": modes,
    "broken": broken,
}
