"""The folders of the package, which stand at the top of the repository: src/numc links them."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "numc"
ROOMS = tuple(sorted(link.name for link in PACKAGE.iterdir() if link.is_symlink()))
