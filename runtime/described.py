"""Programs of every backend: their description, from what a file holds of them, and how that file is written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from numc.runtime.abi import Input, TensorSpec, WidthRange
from numc.runtime.container import Contents, write_program
from numc.runtime.signature import signer
from numc.support import notebook
from numc.support.files import checked_path


class Described:
    """A program that has its contents."""

    _contents: Contents

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs, in order."""
        return self._contents.abi.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs, in order."""
        return self._contents.abi.results

    @property
    def widths(self) -> tuple[WidthRange, ...]:
        """The widths that every run chooses, for each operand whose format leaves them open."""
        return self._contents.abi.widths

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest, in which the compiler describes this program: contractions, layers, texts of failures."""
        return self._contents.manifest

    @property
    def contents(self) -> Contents:
        """All parts of the program file: description, code, weights, manifest and IR."""
        return self._contents

    def __repr__(self) -> str:
        def row(specs: Sequence[TensorSpec]) -> str:
            return ", ".join(f"{s.name}: {s}" for s in specs)

        return f"<{type(self).__name__} ({row(self.inputs)}) -> ({row(self.outputs)})>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: inputs, outputs, sizes, and the operator of each contraction."""
        manifest, held = self.manifest, self._contents
        known = {
            "inputs": ", ".join(f"{spec.name}: {spec}" for spec in self.inputs),
            "outputs": ", ".join(f"{spec.name}: {spec}" for spec in self.outputs),
            "weights": f"{sum(w.nbytes for w in held.weights):,} bytes",
            "policy": "; ".join(manifest.get("policy", "").split("\n")).strip("; "),
        }
        layers = [row for row in manifest.get("layers", ()) if row["position"] is not None]
        rows = [(row["layer"], row["kind"], row["shape"], row["fma"]) for row in layers]
        table = notebook.table(("contraction", "kind", "shape", "operator"), rows) if rows else ""
        name = ", ".join(map(os.path.basename, manifest.get("sources", ()))) or "a module"
        return notebook.card(name, notebook.facts(known), table, about="compiled program")

    def save(self, path: str | os.PathLike[str], *, sign: str | os.PathLike[str] | None = None) -> None:
        """Write the program file, completely or not at all. Raises NumcError if it cannot be written.

        sign: a PEM file with an ed25519 private key, which signs the file (needs `numc[sign]`).
        """
        write_program(checked_path(path), self._contents, None if sign is None else signer(sign))
