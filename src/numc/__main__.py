"""The command ``numc``, also as ``python -m numc``."""

import os
import sys


def main() -> int:
    """Run the command line; return its exit status."""
    # numc does not use BLAS. Without this, importing numpy starts a BLAS thread on every core, which takes longer than
    # most short commands.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Python has no object for a stream that the caller has closed, and the next file would take its number.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    from numc.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
