"""The command ``numc``: its subcommands, and its exit status and message for every failure."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar, cast

import click

from numc.support.environment import in_default_environment
from numc.support.errors import FAULT, CompilerBug, NumcError, ParseError, escaped, shortened
from numc.support.files import keep
from numc.support.versions import own_version

F = TypeVar("F", bound=Callable[..., Any])
_EPILOG = """\b
Examples:
  numc compile model.onnx --fma bf16_1_2 -o model.numc
  numc explain model.onnx --policy mixed.policy
  numc run model.numc --input x.npy --output y.npy
  numc verify model.numc
  numc diff fp32.numc bf16.numc --data x.npz
  numc list fmas
  numc --define own_unit.py verify model.onnx --fma own_unit
"""


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"numc {own_version()}")
        context.exit()


def _set_limit(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Set the environment variable of a limit while the command runs."""
    if value is None:
        return
    name = f"NUMC_{str(parameter.name).upper()}"
    before = os.environ.get(name)
    os.environ[name] = value

    def restore() -> None:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before

    context.call_on_close(restore)


def _define(context: click.Context, _: click.Parameter, paths: Sequence[str]) -> None:
    """Run the files of definitions before the command."""
    if paths and not context.resilient_parsing:
        from numc.numerics.defined.loading import define_from

        for path in paths:
            define_from(path)


def _limit(option: str, unit: str, about: str) -> Callable[[F], F]:
    return click.option(option, metavar=unit, expose_value=False, callback=_set_limit, help=about)


class _Commands(Mapping[str, click.Command]):
    """The commands by name, one file each, which is imported when the command is asked for."""

    of_hardware = ("vectors", "model", "rtl")
    deploying = ("export", "paths")
    names = (
        *("compile", "explain", "cost", "compare", "search", "report", "run", "generate"),
        *("verify", "diff", "bisect", "opt", "list", *of_hardware, *deploying, "cache", "doctor"),
    )

    def __getitem__(self, name: str) -> click.Command:
        if name not in self.names:
            raise KeyError(name)
        folder = "hardware.make_" if name in self.of_hardware else "deploy." if name in self.deploying else "commands."
        module = f"{folder}{name}"
        command: click.Command = getattr(import_module(f"numc.cli.{module}"), f"{name}_command")
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@click.group(
    name="numc",
    commands=cast("dict[str, click.Command]", _Commands()),
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
@click.option(
    "--define",
    metavar="FILE",
    type=click.Path(),
    multiple=True,
    expose_value=False,
    callback=_define,
    help="A Python file with operators of your own, or a format's TOML file; can be given several times.",
)
@_limit("--import-time", "SECONDS", "That importing a model may take; 600.  [env: NUMC_IMPORT_TIME]")
@_limit("--import-memory", "GIB", "That importing a model may take; 4 and 8 times the file.  [env: NUMC_IMPORT_MEMORY]")
@_limit("--memory", "GIB", "That large buffers of a run may take; the machine's.  [env: NUMC_MEMORY]")
def cli() -> None:
    """Compile neural networks to x86-64 and AArch64 code that computes in the number formats you choose, to the bit."""


@in_default_environment
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0: success. 1: numc failed, or a check found a difference. 2: the input is wrong, or the system lacks memory, room
    on a disk or a permission. 130: interrupted. 143: terminated by SIGTERM. A failure prints one line to stderr,
    without a traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files may have what no encoding has
    status = _run(list(sys.argv[1:] if arguments is None else arguments))
    if (reason := _flush()) is not None and status == 0:
        return _fail(f"standard output: {reason}", 2)
    return status


def _run(given: list[str]) -> int:
    if "_NUMC_COMPLETE" in os.environ:
        from numc.cli.shells import add_shells

        add_shells()
    try:
        with _raised_when_terminated():
            return int(cli.main(given, prog_name="numc", standalone_mode=False) or 0)
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", 130)
    except _Terminated:
        return _fail("terminated", 143)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        where = f" (see {context.command_path} --help)" if context else ""
        return _fail(f"{shortened(' '.join(error.format_message().splitlines()), 1000)}{where}", 2)
    except ParseError as error:
        click.echo(f"numc: error: {error}", err=True)  # several lines: the line of the text and the caret below it
        return 2
    except NumcError as error:
        return _fail(str(error), 2)
    except CompilerBug as error:
        return _fail(str(error), 1)
    except MemoryError:
        return _fail("out of memory: use smaller data, a smaller --batch, or a machine with more of it", 2)
    except OSError as error:
        # What writes to files names them; without a name, it was a stream.
        stream = error.filename is None and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EIO)
        where = "standard output" if stream else error.filename or "the system refuses"
        return _fail(f"{where}: {error.strerror or error}", 2)
    except Exception as error:
        return _fail(f"{type(error).__name__}: {shortened(error, 300)}; {FAULT}{_kept(given)}", 1)


class _Terminated(BaseException):
    """SIGTERM came. As with KeyboardInterrupt, what is unfinished is cleaned up on its way."""


@contextlib.contextmanager
def _raised_when_terminated() -> Iterator[None]:
    """Make SIGTERM an exception, unless somebody handles it already."""
    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def terminate(*_: object) -> None:
        raise _Terminated

    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _fail(text: str, status: int) -> int:
    click.echo(f"numc: error: {escaped(text)}", err=True)
    return status


def _flush() -> str | None:
    """Write out what stdout still holds. If that fails, return the reason, and let Python drop it without a message."""
    try:
        sys.stdout.flush()
    except OSError as error:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return error.strerror or str(error)
    return None


def _kept(given: Sequence[str]) -> str:
    """Keep the traceback of the current exception with the command that reproduces it; return words that say where."""
    command = shlex.join(["numc", *given])
    with contextlib.suppress(OSError):
        folder = keep({"traceback.txt": f"reproduce with: {command}\n\n{traceback.format_exc()}"})
        return f" and {folder}/traceback.txt"
    return ""
