"""``python -m numc`` is the command ``numc``."""

import sys

from numc.compiler.cli import main

sys.exit(main())
