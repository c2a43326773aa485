"""``numc paths``: where the headers and the library of the runtime are, for compilers and build systems."""

from __future__ import annotations

import click

from numc.cli import output

_EPILOG = """\b
Examples:
  cc run.c $(numc paths --cflags) $(numc paths --libs) -o run
  cmake -S . -B build -Dnumc_DIR=$(numc paths --cmake)
  PKG_CONFIG_PATH=$(numc paths --pkgconfig) pkg-config --libs numc
"""
_KINDS = {
    "include": "The folder of numc.h and numc.hpp.",
    "library": "The folder of libnumc_runtime.so.",
    "cmake": "The folder of numcConfig.cmake, which find_package(numc) reads.",
    "pkgconfig": "The folder of numc.pc.",
    "cflags": "What a compiler is given.",
    "libs": "What a linker is given.",
}


@click.command("paths", epilog=_EPILOG)
@click.pass_context
def paths_command(context: click.Context, **wanted: bool) -> None:
    """Print where the headers and the library of the C interface are; with an option, that only."""
    from numc.runtime.library import package_folder, include_folder, library_folder

    found = {
        "include": lambda: str(include_folder()),
        "library": lambda: str(library_folder()),
        "cmake": lambda: str(package_folder("cmake", "numcConfig.cmake")),
        "pkgconfig": lambda: str(package_folder("pkgconfig", "numc.pc")),
        "cflags": lambda: f"-I{include_folder()}",
        "libs": lambda: f"-L{library_folder()} -lnumc_runtime -Wl,-rpath,{library_folder()}",
    }
    asked = [kind for kind, yes in wanted.items() if yes]
    if asked:
        output.write_text("-", "".join(f"{found[kind]()}\n" for kind in asked))
        return
    output.table(("what", "where"), [(kind, place()) for kind, place in found.items()])


for kind, about in reversed(_KINDS.items()):
    paths_command = click.option(f"--{kind}", is_flag=True, help=about)(paths_command)
