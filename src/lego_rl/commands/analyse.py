"""``lego-rl analyse``: what agents do, from the trials of a run, or of two side by side."""

import json
from pathlib import Path

from lego_rl.analysis.behaviour import Behaviour, analyse, analyse_against
from lego_rl.commands.screen import Screen
from lego_rl.commands.text_table import print_table
from lego_rl.durable import write_text
from lego_rl.errors import RunError
from lego_rl.report.behaviour import behaviour_table, definitions, markdown


def run(run: Path, against: Path | None, *, as_json: bool, to_markdown: Path | None) -> None:
    """Print the tables of a run.

    Args:
        run: A run directory, or an evaluation's folder.
        against: Another one, to compare it with.
        as_json: Print JSON in place of tables.
        to_markdown: A file to write the tables into, besides.

    Raises:
        RunError: One is no run, has no trial that ended, is damaged, or the two have nothing that goes together.
    """
    tables = analyse(run) if against is None else analyse_against(run, against)
    if not tables:
        raise RunError(f"{run} holds no finished trial", "name a run whose trials have ended")
    screen = Screen()
    if to_markdown is not None:
        write_text(to_markdown, markdown(tables))
    if as_json:
        screen.print(json.dumps([table.plain() for table in tables], indent=1), soft_wrap=True)
        return
    for table in tables:
        print_behaviour(screen, table)
    for line in definitions(tables[0]):
        screen.print(line, style="dim", soft_wrap=True)


def print_behaviour(screen: Screen, table: Behaviour) -> None:
    """Print one table, and what is left out of it."""
    text = behaviour_table(table)
    print_table(screen, text)
    screen.print(text.note, style="dim", soft_wrap=True)
    screen.print()
