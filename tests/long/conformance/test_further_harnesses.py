"""The harnesses that the integration tests leave out, in every situation that capture has to survive."""

import pytest
from harness_table import check_every_situation


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["mini-swe-agent", "qwen-code"])
def test_every_law_holds_in_every_situation(name: str) -> None:
    check_every_situation(name)
