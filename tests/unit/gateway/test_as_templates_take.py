"""A conversation with several system messages, as templates take it."""

from hypothesis import given
from hypothesis import strategies as st

from lego_rl.messages import Message, as_templates_take

CONVERSATIONS = st.lists(
    st.builds(Message, st.sampled_from(["system", "user", "assistant", "tool"]), st.text(max_size=3)), max_size=8
)


def test_what_opens_is_joined_and_a_later_one_is_the_users() -> None:
    sent = [Message("system", "a"), Message("system", "b"), Message("user", "c"), Message("system", "d")]
    assert [*as_templates_take(sent)] == [Message("system", "a\n\nb"), Message("user", "c"), Message("user", "d")]


@given(CONVERSATIONS)
def test_one_system_message_at_the_start_and_no_text_is_lost(sent: list[Message]) -> None:
    taken = [*as_templates_take(sent)]
    assert all(message.role != "system" for message in taken[1:])
    assert "".join(m.content for m in taken).replace("\n", "") == "".join(m.content for m in sent).replace("\n", "")
    assert [*as_templates_take(taken)] == taken
