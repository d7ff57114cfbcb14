"""What a model call was for, told by the shape of its conversation.

Rule: a call that continues another has its role. The first call of a conversation is the main one's if it speaks from
the same lane with the same tools and system prompt as the main conversation (so a fresh start after a compaction is
main); with other tools or another lane it is a sub-agent's. Without tools, beside a conversation that has some, it is a
title if it comes before any main call, else a compaction.
"""

from collections.abc import Sequence

from lego_rl.gateway.trajectory import CallRole
from lego_rl.gateway.tree import Call, Position, Request


def role_of(position: Position, roots: Sequence[Call]) -> CallRole:
    """The role of a call about to begin at `position`."""
    if position.parent is not None:
        return position.parent.role
    main = next((root for root in roots if root.role == "main"), None)
    request = position.request
    if main is None or _speaks_like(request, main.request):
        return "main"
    if not request.tools and main.request.tools:
        return "compaction"
    return "subagent"


def _speaks_like(request: Request, main: Request) -> bool:
    return (
        request.lane == main.lane
        and [tool.name for tool in request.tools] == [tool.name for tool in main.tools]
        and _system(request) == _system(main)
    )


def _system(request: Request) -> list[str]:
    return [message.content for message in request.messages if message.role == "system"]
