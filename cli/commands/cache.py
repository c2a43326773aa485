"""``numc cache``: list or empty the cache of compiled programs."""

from __future__ import annotations

import sys
from datetime import datetime

import click

from numc.cli import output

_EPILOG = """\b
NUMC_CACHE_DIR   the folder (default: numc in the user's cache folder)
NUMC_CACHE_SIZE  the most it may take, such as 500M (default 2G); 0 switches it off

\b
Examples:
  numc cache info
  numc cache clear
"""


@click.group("cache", epilog=_EPILOG)
def cache_command() -> None:
    """Show or empty the cache of compiled programs."""


@cache_command.command("info")
@click.option("--json", "want_json", is_flag=True, help="Print JSON.")
def info_command(want_json: bool) -> None:
    """List the programs in the cache, the most recently used first."""
    from numc.compiler.cache import cache

    info = cache.info()
    if want_json:
        output.as_json(info)
        return
    columns = ("model", "fma", "ops", "target", "bytes", "used")
    rows = [
        [*(row[c] for c in columns[:-1]), datetime.fromtimestamp(row["used"]).isoformat(" ", "seconds")]
        for row in info["programs"]
    ]
    output.table(columns, rows)
    limit = f"{info['limit']:,} bytes" if info["limit"] else "0 bytes: it is off"
    said = f"{info['folder'] or 'no folder'}: {len(rows)} programs, {info['bytes']:,} bytes, at most {limit}"
    output.say(said, err=not sys.stdout.isatty())


@cache_command.command("clear")
def clear_command() -> None:
    """Remove all programs from the cache."""
    from numc.compiler.cache import cache

    count, size = cache.clear()
    output.say(f"removed {count} programs, {size:,} bytes, from {cache.folder() or 'no folder'}")
