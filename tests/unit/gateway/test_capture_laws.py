"""The capture laws over random conversations, in both modes of reasoning; see `conversations`."""

from conversations import AsSent, Conversations
from hypothesis import HealthCheck, Phase, settings

FEW_HUNDRED = settings(
    max_examples=150,
    derandomize=True,
    stateful_step_count=15,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)

TestKeep = Conversations.TestCase
TestKeep.settings = FEW_HUNDRED
TestAsSent = AsSent.TestCase
TestAsSent.settings = FEW_HUNDRED
