"""Fields of rows as tables and texts have them, on SYNTHETIC rows."""

import datetime

import pytest
from synthetic_rows import present

from lego_rl.tasks.convert.registry import format_named
from lego_rl.tasks.convert.row import RowError


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (datetime.date(2021, 3, 4), "2021-03-04"),
        (datetime.datetime(2021, 3, 4, 5), "2021-03-04T05:00:00"),
        (1609298073000, "2020-12-30T03:14:33+00:00"),
        (1609298073, "2020-12-30T03:14:33+00:00"),
        (None, ""),
    ],
)
def test_a_time_is_read_as_tables_and_texts_have_it(value: object, said: str) -> None:
    task = format_named("swebench").convert(present(created_at=value))
    assert task.source is not None and task.source.created_at == said


def test_a_script_with_a_null_character_is_refused_as_that() -> None:
    with pytest.raises(RowError, match="null character"):
        format_named("swebench").convert(present(eval_script="pytest \0"))
