"""The capture laws over random conversations, in both modes of reasoning; see `conversations`."""

from conversations import AsSent, Conversations, Stripping
from hypothesis import Phase, settings

FEW_HUNDRED = settings(
    max_examples=120,
    stateful_step_count=15,
    phases=[Phase.generate, Phase.shrink],
)

TestKeep = Conversations.TestCase
TestKeep.settings = FEW_HUNDRED
TestAsSent = AsSent.TestCase
TestAsSent.settings = FEW_HUNDRED
TestStripping = Stripping.TestCase
TestStripping.settings = FEW_HUNDRED
