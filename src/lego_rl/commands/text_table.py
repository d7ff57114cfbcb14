"""A table of text on the terminal."""

from rich.table import Table

from lego_rl.commands.screen import Screen
from lego_rl.report.evaluation.tables import TextTable


def print_table(screen: Screen, table: TextTable) -> None:
    """Print a table below its title: names on the left, figures on the right."""
    screen.print(table.title, style="bold", soft_wrap=True)
    shown = Table(box=None, pad_edge=False)
    for at, name in enumerate(table.columns):
        shown.add_column(name, justify="right" if at else "left", overflow="fold")
    for row in table.rows:
        shown.add_row(*row)
    screen.print(shown)
