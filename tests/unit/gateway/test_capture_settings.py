"""What a recipe may choose of capture."""

import pytest
from pydantic import ValidationError

from lego_rl.gateway.settings import CaptureSettings


@pytest.mark.parametrize("roles", [[], ["main", "main"], ["judge"]], ids=["none", "one twice", "unknown"])
def test_roles_that_cannot_be_meant(roles: list[str]) -> None:
    with pytest.raises(ValidationError):
        CaptureSettings.model_validate({"train_roles": roles})


def test_roles_are_kept_in_their_order() -> None:
    assert CaptureSettings.model_validate({"train_roles": ["title", "main"]}).train_roles == ("title", "main")
