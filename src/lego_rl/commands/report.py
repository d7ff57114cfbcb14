"""``lego-rl report``: every summary of a run, from its trials."""

from pathlib import Path

from lego_rl.commands.analyse import print_behaviour
from lego_rl.commands.screen import Screen
from lego_rl.report.table import before_after, closing_line
from lego_rl.report.write import write_report


def run(path: Path) -> None:
    """Write ``summary.json`` and ``report.html``, and print the tables of solve rates and of behaviour.

    Raises:
        RunError: The folder is no run directory, or a record of it is damaged.
    """
    report = write_report(path)
    console = Screen()
    if report.summary.heldout_before.trials or report.summary.heldout_after.trials:
        console.print(before_after(report.summary))
    for table in report.behaviour:
        print_behaviour(console, table)
    console.print(closing_line(report.summary))
    console.print(f"{report.page}\n{report.summary_file}", soft_wrap=True)
