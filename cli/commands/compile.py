"""``numc compile``: compile a model to a program file, or to the IR of a stage."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numc.cli import output
from numc.cli.grouped import grouped
from numc.cli.inputs import read_named
from numc.cli.source import Arithmetic, arithmetic_options, check_model, fixed_options
from numc.cli.times import print_times, timed
from numc.support.errors import NumcError, did_you_mean, quoted
from numc.support.files import check_writable, checked_path

if TYPE_CHECKING:
    from numc.runtime.container import Description

_EPILOG = """\b
Examples:
  numc compile model.onnx --fma bf16_1_2 -o model.numc
  numc compile model.onnx --fma 'fma(a=e4m3fn,acc=fp32)' --ops bf16
  numc compile model.onnx --shape x=1x3x224x224 --target x86-64-v3
  numc compile model.onnx --fma 'fmac(e4m5)' --pack-weights
  numc compile model.onnx --fma int8 --calibrate data.npz
  numc compile model.onnx --fma mp --emit numc | less
  numc compile model.onnx --policy mixed.policy
  numc compile model.onnx --sign private.pem
  numc compile gpt2/ --fma hopper_bf16 --shape input_ids=1x128
"""


@dataclass(frozen=True, kw_only=True)
class Showing:
    """Views of the way to a program."""

    emit: str | None
    dump_dir: str | None
    time_passes: bool


@click.command("compile", epilog=_EPILOG)
@click.argument("model", metavar="MODEL.onnx|MODEL.mlir|MODEL.pt2|FOLDER")
@arithmetic_options
@fixed_options
@click.option("--calibrate", metavar="DATA.npz", help="Inputs by name, which fix the scales of intN.")
@click.option("-o", "--output", "out", metavar="OUT", help="File to write; default: the model's name with .numc.")
@grouped(
    "showing",
    Showing,
    click.option("--emit", metavar="STAGE", help="Write the IR after a stage (`numc list stages`) to OUT or stdout."),
    click.option("--dump-dir", metavar="DIR", help="Folder for the IR after every pass that changes it, and an index."),
    click.option("--time-passes", is_flag=True, help="Print how long each pass takes; without the cache."),
)
@click.option(
    "--pack-weights", is_flag=True, help="Hold weights and activations in their formats: a smaller file, less memory."
)
@click.option("--statistics", is_flag=True, help="Kernels that can count swamping: `numc run --stats swamping`.")
@click.option("--streams", type=int, metavar="MIB", help="Memory for parts side by side; 0: one after the other.")
@click.option("--no-cache", is_flag=True, help="Compile anew, and keep nothing in the cache (`numc cache info`).")
@click.option("--sign", "key", metavar="KEY.pem", help="Sign the program with an ed25519 private key (numc[sign]).")
@click.option("--json", "want_json", is_flag=True, help="Print the summary as JSON.")
def compile_command(
    model: str,
    arithmetic: Arithmetic,
    calibrate: str | None,
    out: str | None,
    showing: Showing,
    pack_weights: bool,
    statistics: bool,
    streams: int | None,
    no_cache: bool,
    key: str | None,
    want_json: bool,
) -> None:
    """Compile an ONNX model, MLIR text, a torch.export program or the folder of a language model to a program file.

    Compiling executes nothing that a model file holds: .onnx and .pt2 are data, .mlir is source code.
    """
    check_model(model)
    emit, time_passes = showing.emit, showing.time_passes
    if emit is not None:
        unfit = {"--calibrate": calibrate, "--json": want_json, "--pack-weights": pack_weights, "--sign": key}
        _check_emit(emit, (option for option, value in unfit.items() if value))
    elif out == "-":
        raise NumcError("-o -: a program is not text: name a file (stdout is for --emit)")
    out = out or ("-" if emit is not None else f"{Path(model).stem}.numc")
    if out != "-":
        check_writable(Path(out))
        if emit is None and Path(out).exists() and not Path(out).is_file():
            raise NumcError(f"{out}: not a regular file: a program takes the place of the file it is written to")
    options = replace(arithmetic.options(), pack_weights=pack_weights, statistics=statistics, streams=streams)
    dump = _folder(showing.dump_dir) if showing.dump_dir is not None else None
    start = time.perf_counter()
    if emit is not None:
        from numc.compiler.dump import Dump
        from numc.compiler.lower import emitted
        from numc.frontends.load import load_file

        with output.compiling(model), timed(wanted=time_passes) as times:
            text = emitted(load_file(model, arithmetic.fixed), options, emit, Dump(dump) if dump else None)
        output.write_text(out, text)
        if time_passes:
            print_times(times)
        return
    from numc.compiler.programs import compile as compiling
    from numc.runtime.signature import signer

    sign = None if key is None else signer(key)
    with output.compiling(model), timed(wanted=time_passes) as times:
        if calibrate is not None:
            options = compiling.calibrated(model, options, arithmetic.fixed, read_named(calibrate), cache=not no_cache)
        # The program is not loaded, because the target may be another processor than this one.
        made, cached = compiling.to_file(
            model, out, options, arithmetic.fixed, sign=sign, cache=not (no_cache or time_passes), dump_dir=dump
        )
    if time_passes:
        print_times(times)
    _summary(made, out, time.perf_counter() - start, cached, want_json)


_NOT_WITH_EMIT = {
    "--calibrate": "--emit writes IR text, --calibrate makes a program: leave one of them out",
    "--json": "--emit writes IR text: leave --json out",
    "--pack-weights": "--emit writes IR text, which holds no weights: leave --pack-weights out",
    "--sign": "--emit writes IR text, which is not signed: leave --sign out",
}


def _check_emit(stage: str, given: Iterable[str]) -> None:
    for option in given:
        raise NumcError(_NOT_WITH_EMIT[option])
    from numc.compiler.pipeline import STAGES

    if stage not in STAGES:
        near = did_you_mean(stage, STAGES)
        raise NumcError(f"--emit {quoted(stage)}: no such stage{near}: want {', '.join(STAGES)}")


def _folder(path: str) -> Path:
    folder = checked_path(path)
    if folder.exists() and not folder.is_dir():
        raise NumcError(f"{path}: is a file: name a folder for the IR")
    check_writable(folder / "numc.mlir" if folder.exists() else folder)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:  # such as a full disk
        raise NumcError(f"{path}: cannot create the folder: {error.strerror or error}: name another place") from None
    return folder


def _summary(made: Description, out: str, seconds: float, cached: bool, want_json: bool) -> None:
    abi, manifest = made.abi, made.manifest
    weight_bytes = sum(w.nbytes for w in abi.weights)
    stored_bytes = sum(w.nbytes if w.storage is None else w.storage.stored_bytes for w in abi.weights)
    packed = [(w.storage.values, w.storage.stored_bytes) for w in abi.weights if w.storage is not None]
    packed += [(w["values"], w["bytes"]) for w in manifest["weights"] if w["held"].startswith("codes")]
    values, bits = sum(n for n, _ in packed), 8 * sum(size for _, size in packed)
    contractions = len(manifest["contractions"])
    used = ", ".join(dict.fromkeys(c["fma"] for c in manifest["contractions"])) or manifest["fma"]
    formats = ", ".join(dict.fromkeys([row["ops"] for row in manifest["layers"]])) or manifest["ops"]
    if want_json:
        output.as_json(
            {
                "program": out,
                "inputs": [{"name": s.name, "dtype": s.dtype, "shape": s.shape} for s in abi.inputs],
                "outputs": [{"name": s.name, "dtype": s.dtype, "shape": s.shape} for s in abi.results],
                "fma": manifest["fma"],
                "ops": manifest["ops"],
                "policy": manifest["policy"],
                "target": manifest["target"],
                "contractions": contractions,
                "code_bytes": made.code_bytes,
                "weight_bytes": weight_bytes,
                "stored_weight_bytes": stored_bytes,
                "packed_values": values,
                "bits_per_packed_value": round(bits / values, 4) if values else None,
                "weights": manifest["weights"],
                "activations": manifest["activations"],
                "program_bytes": Path(out).stat().st_size,
                "cached": cached,
                "seconds": round(seconds, 3),
            }
        )
        return
    each = f" ({bits / values:.3g} bits per packed value)" if values else ""
    inputs, outputs = (", ".join(f"{s.name}: {s}" for s in specs) for specs in (abi.inputs, abi.results))
    if not sys.stdout.isatty():
        output.say(
            f"{out}: ({inputs}) -> ({outputs}), {contractions} contractions in {used}, "
            f"{made.code_bytes} bytes of code, {weight_bytes} bytes of weights"
            f"{f', stored in {stored_bytes}{each}' if each else ''}, {seconds:.2f} s"
            f"{', cached' if cached else ''}"
        )
        return
    output.table(
        ("program", out),
        [
            ("inputs", inputs),
            ("outputs", outputs),
            ("arithmetic", f"{used}, other operations in {formats}"),
            ("target", manifest["target"]),
            ("contractions", contractions),
            ("code", f"{made.code_bytes:,} bytes"),
            ("weights", f"{weight_bytes:,} bytes" + (f", stored in {stored_bytes:,}{each}" if each else "")),
            ("program", f"{Path(out).stat().st_size:,} bytes"),
            ("time", f"{seconds:.2f} s{', from the cache' if cached else ''}"),
        ],
    )
