"""The command ``numc``, also as ``python -m numc``."""

import os
import sys


def main() -> int:
    """Run the command line; return its exit status."""
    # numc multiplies by itself: without this, importing numpy starts a BLAS thread on every core, which a short command
    # waits for longer than it computes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from numc.compiler.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
