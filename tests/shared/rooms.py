"""The folders of the package, which stand at the top of the repository: src/numc links them."""

from tools.rooms import ROOMS, ROOT

__all__ = ["ROOMS", "ROOT"]
