"""``numc export``: a program as a shared object with a C header of its own."""

from __future__ import annotations

import click

from numc.cli import output
from numc.support.errors import NumcError

_EPILOG = """\b
The object is called as any library is; it needs libnumc_runtime.so, which is copied beside it. The linker is ld.lld or
ld, or the one that NUMC_LINKER names. A program for another machine needs that machine's libnumc_runtime.so.

\b
Examples:
  numc compile model.onnx --fma bf16_1_1 -o model.numc
  numc export model.numc --shared out/libmodel.so
  numc export model-aarch64.numc --shared out/libmodel.so --runtime build-aarch64/runtime/libnumc_runtime.so
"""


@click.command("export", epilog=_EPILOG)
@click.argument("program", metavar="PROGRAM.numc")
@click.option("--shared", required=True, metavar="LIB.so", help="The shared object; its header is written beside it.")
@click.option("--name", help="What its functions begin with; default: the name of the file without lib.")
@click.option("--runtime", metavar="LIB.so", help="The libnumc_runtime.so to copy; default: that of this numc.")
@click.option("--no-runtime", is_flag=True, help="Do not copy libnumc_runtime.so, numc.h and numc.hpp beside it.")
@click.option("--json", "want_json", is_flag=True, help="Print the files as JSON.")
def export_command(
    program: str, shared: str, name: str | None, runtime: str | None, no_runtime: bool, want_json: bool
) -> None:
    """Write a compiled program as a shared object and a C header."""
    from numc.compiler.deploy.shared_object import export_shared

    if runtime is not None and no_runtime:
        raise NumcError("--no-runtime copies no runtime: leave --runtime out")
    with output.busy(f"linking {shared}"):
        made = export_shared(program, shared, name=name, runtime=not no_runtime if runtime is None else runtime)
    files = {"library": str(made.library), "header": str(made.header), "runtime": list(map(str, made.runtime))}
    if want_json:
        output.as_json({"name": made.name, **files})
        return
    output.say(f"{made.library}: {made.name}_run and {made.name}_program, declared in {made.header}")
