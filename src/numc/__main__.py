"""The command ``numc``, also as ``python -m numc``."""

import os
import sys


def main() -> int:
    """Run the command line; return its exit status."""
    # numc does not use BLAS. Without this, importing numpy starts a BLAS thread on every core, which takes longer than
    # most short commands.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from numc.compiler.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
