"""The memory that a model may ask for by the sizes that it names, so that none takes the machine's. Runs in the worker.

A tensor of fixed size may take as many bytes as the import may, and all constants together half of them, because the
importer has some of them twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from numc.frontends.workers import worker
from numc.support.errors import NumcError

_GIB = 2**30
_ADVICE = "if the sizes of the model are right, set NUMC_IMPORT_MEMORY to more GiB"


@dataclass
class Budget:
    """The bytes that a model may ask for. made: those of the constants that folding has made so far."""

    limit: float = field(default_factory=worker.memory)
    made: int = 0

    def check_tensor(self, name: str, shape: list[int], size: int) -> None:
        """Raise NumcError if a tensor of `size` bytes is larger than the import may be."""
        if size > self.limit:
            raise NumcError(f"'{name}' would have shape {shape}, {size / _GIB:.1f} GiB: a tensor of this model may "
                            f"have {self.limit / _GIB:.1f} GiB at most; {_ADVICE}")  # fmt: skip

    def has_room(self, size: int) -> bool:
        """Whether constants of `size` bytes may be made beside those that folding has made."""
        return self.made + size <= self.limit / 2

    def check_constants(self, what: str, size: int) -> None:
        """Raise NumcError if constants of `size` bytes in all are too many; what: the thing that makes them."""
        if size > self.limit / 2:
            raise NumcError(f"{what} makes constants of {size / _GIB:.1f} GiB in all: those of this model may have "
                            f"{self.limit / 2 / _GIB:.1f} GiB at most; {_ADVICE}")  # fmt: skip
