"""``numc run``: run a program, or a model that is compiled first, on numpy files or random numbers."""

from __future__ import annotations

import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from numc.cli import output
from numc.cli.grouped import grouped
from numc.cli.inputs import Inputs, gather, input_options
from numc.cli.profile_options import Profiling, print_profile, profile_options
from numc.cli.source import Arithmetic, arithmetic_options, fixed_options, program_from
from numc.compiler.arrays.statistics import WHAT, Statistics, sampling
from numc.compiler.arrays.statistics import chosen as asked_for
from numc.support.errors import NumcError, quoted
from numc.support.files import check_writable, write_whole
from numc.support.json_values import parsed

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

_EPILOG = """\b
A program (.numc) is machine code, and .mlir is source code: run only those you trust. .onnx and .pt2 are data.

\b
Examples:
  numc run model.numc --input x.npy --output y.npy
  numc run model.numc --input ids=ids.npy --input mask=mask.npy --output y.npz
  numc run model.onnx --fma mp --random-input 0 --batch 8
  numc run model.onnx --fma 'fmac(e6m9:sr8)' --seed 7
  numc run model.onnx --fma 'bfp(16,3,2..4)' --widths '{"conv*": 2, "fc1": {"a": 3}}'
  numc run model.onnx --fma bf16_1_1 --input x.npy --stats swamping,exponents --sample 1/16
  numc run model.onnx --random-input 0 --threads 1 --profile --report profile.html
  numc run model.numc --verify-with public.pem --input x.npy
"""


@dataclass(frozen=True, kw_only=True)
class Counting:
    """Which statistics of the run to collect, and where to write them."""

    stats: str | None
    sample: str | None
    stats_output: str | None

    def what(self) -> tuple[str, ...]:
        """Return the names of the statistics asked for. Raises NumcError for options that do not fit together."""
        if self.stats is None:
            for option, value in (("--sample", self.sample), ("--stats-output", self.stats_output)):
                if value is not None:
                    raise NumcError(f"{option} is about statistics: say which with --stats, some of {','.join(WHAT)}")
            return ()
        if self.stats_output is not None:
            path = Path(self.stats_output)
            if path.suffix != ".json":
                raise NumcError(f"--stats-output {path}: want a name that ends in .json")
            check_writable(path)
        what = WHAT if self.stats == "all" else asked_for(self.stats)
        if self.sample is not None:
            if "swamping" not in what:
                raise NumcError("--sample is about swamping, the other statistics are of everything: leave it out")
            sampling(self.sample)
        return what


@click.command("run", epilog=_EPILOG)
@click.argument("path", metavar="PROGRAM|MODEL")
@input_options
@click.option("--output", "-o", "out", metavar="FILE", help="y.npy (one output) or y.npz (all outputs, by name).")
@click.option("--seed", "draws", type=int, metavar="N", help="Seed of stochastic roundings; default: 0.")
@click.option("--widths", metavar="JSON|FILE", help="Of formats that leave them open: 3, [5, 2], layers, or a .json.")
@grouped(
    "counting",
    Counting,
    click.option("--stats", metavar="WHAT", help=f"Statistics of every contraction: some of {','.join(WHAT)}, or all."),
    click.option("--sample", metavar="1/N", help="Count swamping in every Nth step of a reduction; default: 1."),
    click.option("--stats-output", metavar="FILE.json", help="Write the statistics here (numc.Statistics.from_json)."),
)
@click.option("--verify-with", "key", metavar="KEY.pem", help="Refuse a program that this public key does not verify.")
@profile_options
@arithmetic_options
@fixed_options
@click.option("--json", "want_json", is_flag=True, help="Print the outputs' statistics as JSON.")
def run_command(
    path: str,
    given: Inputs,
    out: str | None,
    draws: int | None,
    widths: str | None,
    counting: Counting,
    key: str | None,
    profiling: Profiling,
    arithmetic: Arithmetic,
    want_json: bool,
) -> None:
    """Run a program, or compile a model and run it; print statistics of the outputs, or write the outputs to a file."""
    from numc.runtime.program import seed_number

    if out is not None:
        if Path(out).suffix not in (".npy", ".npz"):
            raise NumcError(f"--output {out}: want a name that ends in .npy or .npz")
        check_writable(Path(out))
    profiling.check()
    chosen = seed_number(draws or 0)
    what, chosen_widths = counting.what(), _widths(widths)
    program = program_from(path, arithmetic, statistics="swamping" in what, verify_with=key)
    if out is not None and Path(out).suffix == ".npy" and len(program.outputs) != 1:
        raise NumcError(f"--output {out}: the program has {len(program.outputs)} outputs: want an .npz file")
    inputs = gather(program, given.files, given.seed, given.batch)
    collected: Statistics | None = None
    how: dict[str, Any] = {"threads": given.threads, "seed": chosen, "widths": chosen_widths}
    start = time.perf_counter()
    if what:
        from numc.studies.observe.collect import collect_stats

        with collect_stats(what, sample=counting.sample or 1) as block:
            results = program.by_name(inputs, **how)
        seconds = time.perf_counter() - start
        collected = block.statistics
    else:
        results = program.by_name(inputs, **how)
        seconds = time.perf_counter() - start
    if collected is not None and counting.stats_output is not None:
        output.write_statistics(collected, counting.stats_output)
    if out is not None:
        _save(Path(out), results)
    profile = profiling.profile(program, inputs, **how)
    rows = [(name, value.shape, value.dtype.name, *_statistics(value)) for name, value in results.items()]
    if want_json:
        keys = ("name", "shape", "dtype", "min", "mean", "max")
        listed = [dict(zip(keys, row, strict=True)) for row in rows]
        extra = {} if collected is None else {"statistics": collected.to_json()}
        if profile is not None:
            extra["profile"] = profile.as_json()
        output.as_json({"outputs": listed, "seconds": round(seconds, 6), "output": out, **extra})
        return
    if out is None:
        cells = [(name, output.dims(shape), dtype, *(_cell(v) for v in values)) for name, shape, dtype, *values in rows]
        output.table(("output", "shape", "dtype", "min", "mean", "max"), cells)
        click.echo(f"{seconds * 1e3:.3f} ms", err=not sys.stdout.isatty())
    elif sys.stderr.isatty():
        output.say(f"wrote {out} ({seconds * 1e3:.3f} ms)", err=True)
    if collected is not None and counting.stats_output is None:
        output.print_statistics(collected)
    if profile is not None:
        print_profile(profile)


def _widths(text: str | None) -> Any:
    """Return what --widths gives to a run: JSON, or a file of it. Raises NumcError for anything else."""
    if text is None:
        return None
    path = Path(text) if text.endswith(".json") else None
    try:
        return parsed(text if path is None else path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NumcError(f"--widths {quoted(text)}: {error.strerror or error}: name a file of JSON") from None
    except (ValueError, RecursionError):
        raise NumcError(
            f"--widths {quoted(text)}: not JSON: want a number, [exponent bits, significand bits], or layers as in "
            '{"conv1": {"a": 3}}'
        ) from None


def _save(path: Path, results: dict[str, Array]) -> None:
    """Write the results; those whose dtype files of numpy do not have, as unsigned integers with their bits."""
    import numpy as np

    from numc.runtime.tensors import bits_dtype

    results = {name: value.view(bits_dtype(value.dtype.name)) for name, value in results.items()}

    def write(file: IO[bytes]) -> None:
        if path.suffix == ".npy":
            np.save(file, next(iter(results.values())), allow_pickle=False)
            return
        # Not numpy.savez, which has a parameter called "file", so that an output could not have this name.
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, value in results.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(value), allow_pickle=False)

    write_whole(path, write)


def _statistics(value: Array) -> tuple[float | int | bool | None, ...]:
    """Return minimum, mean and maximum, which are NaN if an element is; None if there are no elements."""
    import numpy as np

    from numc.runtime.tensors import as_numbers

    value = as_numbers(value)
    if value.size == 0:
        return None, None, None
    with np.errstate(all="ignore"):
        return value.min().item(), float(value.mean(dtype=np.float64)), value.max().item()


def _cell(value: float | int | None) -> str:
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
