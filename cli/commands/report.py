"""``numc report``: show what trainings left behind, in a table and on a page."""

from __future__ import annotations

import sys

import click

from numc.cli import output
from numc.cli.report_places import check_page, check_plots

_EPILOG = """\b
A RUN is a folder with any of these files; what is missing or damaged is said in one line:
  decisions.jsonl   the argument log of a recipe
  statistics.jsonl  the argument file of numc.train.EpochStatistics
  denormals.jsonl   the argument file of numc.train.DenormalMonitor
  metrics.jsonl     written by numc.train.RunFolder
  run.json          its group and seed: runs of a group are drawn as their mean in a band

\b
Examples:
  numc report runs/dynamic -o run.html
  numc report runs/fp32 runs/dynamic -o both.html --plots plots
  numc report runs/dynamic --json
"""


@click.command("report", epilog=_EPILOG)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("-o", "--output", "page", metavar="FILE.html", help="Write a page.")
@click.option("--plots", metavar="FOLDER", help="Write plots as .png and .svg.")
@click.option("--json", "want_json", is_flag=True, help="Print JSON.")
def report_command(runs: tuple[str, ...], page: str | None, plots: str | None, want_json: bool) -> None:
    """Show loss, arithmetics, swamping, denormals, exponents and decisions of trainings, laid over one another."""
    from numc.train.runs.report import report

    if page is not None:
        check_page(page)
    if plots is not None:
        check_plots(plots)
    with output.busy("reading"):
        training_report = report(*runs)
    if page is not None:
        training_report.write_report(page)
    if plots is not None:
        training_report.write_plots(plots)
    if want_json:
        output.as_json(training_report.as_json())
        return
    facts = training_report.summary()
    columns = list(dict.fromkeys(fact.about for its in facts.values() for fact in its))
    answers = {name: {fact.about: fact.answer for fact in its} for name, its in facts.items()}
    output.table(["run", *columns], [[name, *(its.get(c, "-") for c in columns)] for name, its in answers.items()])
    if rows := training_report.groups():
        columns = ["group", "metric", "runs", "mean", f"minus {rows[0].group}", "could have been seen"]
        output.table(columns, [[row.group, row.metric, row.seeds, *row.cells] for row in rows])
    for note in training_report.notes:
        output.say(note, err=not sys.stdout.isatty())
    for path in filter(None, (page, plots)):
        output.say(f"wrote {path}", err=not sys.stdout.isatty())
