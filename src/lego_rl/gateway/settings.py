"""How a run captures: the choices that decide what is in a policy's context and what of it trains."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from lego_rl.gateway.trajectory import CallRole
from lego_rl.settings import Settings

type Reasoning = Literal["keep", "as_sent"]
"""What becomes of the reasoning of earlier turns; see `CaptureSettings.reasoning`."""


def _each_once(roles: tuple[CallRole, ...]) -> tuple[CallRole, ...]:
    if len(set(roles)) < len(roles):
        raise ValueError("a role is named twice")
    return roles


class CaptureSettings(Settings):
    """What the gateway keeps in a policy's context, and which model calls train."""

    reasoning: Reasoning = "keep"
    """Reasoning of earlier turns, where the harness or the chat template leaves it out. ``keep``: it stays in the
    context as it was sampled, so a conversation is one segment. ``as_sent``: it is gone, as with a plain model server;
    each turn that lost it starts a new segment. Not set: as the policy was trained, if it was trained here, else
    ``keep``."""
    train_roles: Annotated[tuple[CallRole, ...], Field(min_length=1), AfterValidator(_each_once)] = (
        "main",
        "subagent",
        "compaction",
    )
    """Which calls train: ``main``, ``subagent``, ``compaction``, ``title``. What the others sampled is counted as
    excluded."""


DEFAULT_CAPTURE = CaptureSettings()
