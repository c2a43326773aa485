"""``numc paths``: where the headers and the library of the runtime are, for compilers and build systems."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from numc.cli import output

_EPILOG = """\b
include is the folder of numc.h, library that of libnumc_runtime.so, cmake that of numcConfig.cmake, pkgconfig that of
numc.pc; cflags is for a compiler, libs for a linker.

\b
Examples:
  numc paths cmake pkgconfig
  cc run.c $(numc paths cflags libs) -o run
  cmake -S . -B build -Dnumc_DIR=$(numc paths cmake)
  PKG_CONFIG_PATH=$(numc paths pkgconfig) pkg-config --libs numc
"""
_KINDS = ("include", "library", "cmake", "pkgconfig", "cflags", "libs")


@click.command("paths", epilog=_EPILOG)
@click.argument("kinds", nargs=-1, type=click.Choice(_KINDS))
def paths_command(kinds: Sequence[str]) -> None:
    """Print where the headers and the library of the C interface are: a table, or a line for each that is named."""
    from numc.runtime.library import include_folder, library_folder, package_folder

    places: dict[str, Callable[[], str]] = {
        "include": lambda: str(include_folder()),
        "library": lambda: str(library_folder()),
        "cmake": lambda: str(package_folder("cmake", "numcConfig.cmake")),
        "pkgconfig": lambda: str(package_folder("pkgconfig", "numc.pc")),
        "cflags": lambda: f"-I{include_folder()}",
        "libs": lambda: f"-L{library_folder()} -lnumc_runtime -Wl,-rpath,{library_folder()}",
    }
    if kinds:
        output.write_text("-", "".join(f"{places[name]()}\n" for name in kinds))
        return
    output.table(("what", "where"), [(name, places[name]()) for name in _KINDS])
