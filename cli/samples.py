"""The samples that studies run a model on: files, or windows of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from numc.cli.grouped import grouped
from numc.cli.inputs import read_data, read_labels
from numc.support.errors import NumcError

if TYPE_CHECKING:  # numpy is imported only where it is used, so that `--help` is quick
    import numpy.typing as npt

    Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Samples:
    """The samples that a model runs on: files, or windows of tokens."""

    data: tuple[str, ...]
    tokens: str | None
    length: int | None
    stride: int | None
    labels: str | None = None

    @property
    def is_given(self) -> bool:
        """Whether any of the options is."""
        return any(option is not None and option != () for option in vars(self).values())

    def read(self, model: str) -> tuple[Any, Array | None]:
        """Return data and labels. Raises NumcError for options that do not fit."""
        if self.tokens is None:
            if self.length is not None or self.stride is not None:
                option = "--stride" if self.length is None else "--length"
                raise NumcError(f"{option} is about --tokens: give --tokens FILE")
            if not self.data:
                raise NumcError("nothing to run the model on: give --data FILE, or --tokens FILE and --length N")
            return read_data(self.data), None if self.labels is None else read_labels(self.labels)
        if self.data or self.labels is not None:
            raise NumcError("--tokens says what the inputs and the labels are: leave --data and --labels out")
        if self.length is None:
            raise NumcError("--tokens needs --length N, the number of tokens that the model gets at once")
        from numc.frontends.pytorch.folder import text_tokens
        from numc.studies.language.tokens import token_windows

        tokens = text_tokens(model, self.tokens) if self.tokens.endswith(".txt") else self.tokens
        return token_windows(tokens, self.length, self.stride)


DATA = click.option("--data", multiple=True, metavar="[NAME=]FILE", help="Inputs: .npz or .npy. Repeatable.")
TOKENS = click.option(
    "--tokens", metavar="FILE", help="Instead of --data: .npy, .npz or .bin of tokens, or .txt for a FOLDER."
)
LENGTH = click.option("--length", type=click.IntRange(2), metavar="N", help="Of windows of --tokens; needed with it.")
STRIDE = click.option(
    "--stride", type=click.IntRange(1), metavar="N", help="From window to window; default: the length."
)

#: Adds --data, --tokens, --length, --stride and --labels to a command, which gets them as `samples`.
samples_options = grouped(
    "samples",
    Samples,
    DATA,
    TOKENS,
    LENGTH,
    STRIDE,
    click.option("--labels", metavar="FILE", help="Class numbers, or values like the output's."),
)
