"""Why a session gives a request no model call: each is an answer of its own in every wire format."""

FAREWELL = "The budget of this session is used up. This is the end of the session."


class ContextOverflow(Exception):
    """The prompt leaves no room to answer within the context budget.

    Args:
        prompt_tokens: Its length, or the least that it can be.
        limit: The context budget.
    """

    def __init__(self, prompt_tokens: int, limit: int) -> None:
        super().__init__(f"prompt is too long: {prompt_tokens} tokens > {limit} maximum")


class BudgetSpent(Exception):
    """No more tokens of prompts are counted."""

    def __init__(self) -> None:
        super().__init__(FAREWELL)


class BodyStalled(Exception):
    """The rest of a request body does not come.

    Args:
        seconds: How long it was waited for.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the request body did not arrive within {seconds:g} s; send it again")


class InternalFault(Exception):
    """What nobody foresaw while sampling: a bug here or a wrong configuration, and no retry mends it."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")


class PromptRefused(Exception):
    """What answers refuses this conversation, while it answers others: its content is why.

    Args:
        reason: What it said.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the request was refused: {reason}")
