"""The capture laws over 12,000 random conversations; see `conversations` of the unit tests."""

import pytest
from conversations import AsSent, Conversations, Stripping
from hypothesis import HealthCheck, Phase, settings

MANY = settings(
    max_examples=4_000,
    derandomize=True,
    stateful_step_count=15,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)

TestKeep = pytest.mark.timeout(7_200)(Conversations.TestCase)
TestKeep.settings = MANY
TestAsSent = pytest.mark.timeout(7_200)(AsSent.TestCase)
TestAsSent.settings = MANY
TestStripping = pytest.mark.timeout(7_200)(Stripping.TestCase)
TestStripping.settings = MANY
