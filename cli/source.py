"""Parts that most commands share: the options that say how to compile, and models where a program is expected."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from numc.cli import complete
from numc.cli.grouped import grouped
from numc.support.arguments import Fixed, checked_fixed
from numc.support.errors import NumcError, quoted, shortened
from numc.support.files import GGUF, checked_path
from numc.support.versions import check_torch_mlir

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from numc.compiler.options import Options
    from numc.runtime.program import Program

F = TypeVar("F", bound=Callable[..., Any])
MODELS = (".onnx", ".mlir", ".pt2", GGUF)
_FLOAT = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]{1,3})?|-?inf|nan", re.ASCII)
_SIZE = re.compile(r"0*[1-9][0-9]{0,17}")  # what 64-bit integers hold


@dataclass(frozen=True)
class Arithmetic:
    """The options that say how to compile; None for one that was not given."""

    fma: str | None = None
    ops: str | None = None
    policy: str | None = None
    target: str | None = None
    fixed: Fixed = field(default_factory=dict)
    respect_dtypes: bool = True

    @property
    def is_given(self) -> bool:
        return any((self.fma, self.ops, self.policy, self.target, self.fixed, not self.respect_dtypes))

    def options(self) -> Options:
        """Return the options of the compiler.

        Raises NumcError for unknown names, and for options that exclude each other.
        """
        from numc.compiler.options import Options
        from numc.numerics.policy.load import load_policy

        if self.policy is not None and (self.fma is not None or self.ops is not None):
            option = "--ops" if self.fma is None else "--fma"
            raise NumcError(f"--policy says what every operation computes in: leave {option} out, or give a `default`")
        policy = load_policy(self.policy) if self.policy is not None else None
        options = Options(
            fma="fp32" if self.fma is None else self.fma,
            ops="fp32" if self.ops is None else self.ops,
            target="host" if self.target is None else self.target,
            policy=policy,
            respect_dtypes=self.respect_dtypes,
        )
        options.resolved()
        return options


#: Adds --fma, --ops, --policy, --target and --no-respect-dtypes to a command, which gets them as `arithmetic`.
arithmetic_options = grouped(
    "arithmetic",
    Arithmetic,
    click.option(
        "--fma",
        metavar="FMA",
        shell_complete=complete.operators,
        help="FMA operator of every contraction: `numc list fmas`, or its text.",
    ),
    click.option(
        "--ops",
        metavar="FORMAT",
        shell_complete=complete.formats,
        help="Format of every other float operation: `numc list formats`, or F(sums=G).",
    ),
    click.option("--policy", metavar="FILE", help="Arithmetic by layer: a file, its text, or a preset."),
    click.option("--target", metavar="CPU", help="host (default) or one of `numc list targets`."),
    click.option(
        "--respect-dtypes/--no-respect-dtypes",
        default=True,
        help="Round what tensors of bfloat16, float16 and float8 store to these (default), or compute in float32.",
    ),
)


def fixed_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --shape and --value to a command, which gets them as `fixed`; if it has `arithmetic_options`, in those."""

    @functools.wraps(function)
    def command(*args: Any, shapes: tuple[str, ...], values: tuple[str, ...], **others: Any) -> Any:
        fixed = checked_fixed(parse_shapes(shapes), parse_values(values))
        if (arithmetic := others.get("arithmetic")) is not None:
            return function(*args, **{**others, "arithmetic": replace(arithmetic, fixed=fixed)})
        return function(*args, fixed=fixed, **others)

    for option in (
        click.option(
            "--value", "values", multiple=True, metavar="NAME=NUMBERS", help="Fix an input's value: sr=16000."
        ),
        click.option(
            "--shape", "shapes", multiple=True, metavar="NAME=SIZES", help="Fix an input's shape: x=1x3x224x224."
        ),
    ):
        option(command)
    return command


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of --shape by name of the input. Raises NumcError for a text that is not NAME=SIZES."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, _, sizes = text.rpartition("=")
        numbers = sizes.split("x")
        if not name or not all(_SIZE.fullmatch(number) for number in numbers):
            raise NumcError(
                f"--shape {quoted(text)}: want NAME=SIZExSIZE..., sizes of at least 1, such as x=1x3x224x224"
            )
        if name in shapes:
            raise NumcError(f"--shape {quoted(text)}: the shape of {quoted(name)} is given twice")
        shapes[name] = tuple(map(int, numbers))
    return shapes


def parse_values(texts: Sequence[str]) -> dict[str, npt.NDArray[np.generic]]:
    """Return the values of --value by name of the input. Raises NumcError for a text that is not NAME=NUMBERS."""
    values: dict[str, npt.NDArray[np.generic]] = {}
    for text in texts:
        name, _, written = text.rpartition("=")
        numbers = [_number(number) for number in written.split(",")]
        if not name or None in numbers:
            raise NumcError(
                f"--value {quoted(text)}: want NAME=NUMBER, or numbers with commas between them, such as sr=16000"
            )
        if name in values:
            raise NumcError(f"--value {quoted(text)}: the value of {quoted(name)} is given twice")
        import numpy as np

        values[name] = np.asarray(numbers if "," in written else numbers[0])
    return values


def _number(text: str) -> int | float | None:
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"-?[0-9]{1,18}", text, re.ASCII):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else None


def is_model(path: str) -> bool:
    """Whether a path is that of a model by its suffix, or of a folder, and not of a program."""
    return Path(path).suffix in MODELS or os.path.isdir(path)


def check_model(model: str) -> None:
    """Raise NumcError unless `model` is a file with the suffix of a model or a folder, and MLIR is there to read it."""
    path = checked_path(model)
    if not path.is_dir():
        if path.suffix not in MODELS:
            raise NumcError(
                f"{shortened(model, 300)}: no model by its suffix: want .onnx, .mlir, .pt2, .gguf or a folder"
            )
        if not path.is_file():
            raise NumcError(f"{shortened(model, 300)}: no such file: want a model")
    check_torch_mlir()


def program_from(
    path: str, arithmetic: Arithmetic, *, statistics: bool = False, verify_with: str | None = None
) -> Program:
    """Load a program, or compile a model in memory. Raises NumcError if the file is not valid.

    statistics: whether the kernels of the compiled model have to be able to count. verify_with: the public key by which
    a program has to be signed.
    """
    from numc.runtime.program import Program, load_here

    if is_model(path):
        if verify_with is not None:
            raise NumcError(f"{path}: is a model, --verify-with is about program files: compile it with --sign first")
        check_model(path)
        options = replace(arithmetic.options(), statistics=statistics)
        from numc.cli.output import compiling
        from numc.compiler.programs.compile import contents

        with compiling(path):
            return Program(contents(path, options, arithmetic.fixed)[0])
    if arithmetic.is_given:
        raise NumcError(f"{path}: a program is compiled already: leave --fma, --ops, --policy, --target, "
                        "--no-respect-dtypes, --shape, --value out")  # fmt: skip
    return load_here(path, verify_with=verify_with)
