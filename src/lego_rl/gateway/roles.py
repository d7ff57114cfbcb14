"""What a model call was for, told by the shape of its conversation once all of them are known.

Rule: a call that continues another has its role. The main conversation is the first one that was offered tools, else
the first. One that speaks from the same lane with the same tools and system prompt is main too (a fresh start after a
compaction); with other tools, another prompt or another lane it is a sub-agent's. One without tools, beside a main one
that has some, is a title if it began before the main conversation's second request and holds no turn of an assistant,
else a compaction.

The system prompt is what comes before the first other message: reminders that a harness gives later on, in the same
name, are not part of it.

A harness may also ask for a compaction in the main conversation itself. That call is told by what becomes of it: it
calls no tool, nothing continues it, and the next main call that begins finds most of it in what it is told. A harness
that does not like the answer asks again, in other words at the end: all these calls are the compaction's.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile

from lego_rl.gateway.call import Call, Request
from lego_rl.gateway.trajectory import CallRole


def roles_of(roots: Sequence[Call], calls: Sequence[Call]) -> dict[Call, CallRole]:
    """The role of every call.

    Args:
        roots: First calls, in the order of their start.
        calls: All of them, in the order of their start.
    """
    if not roots:
        return {}
    main = next((root for root in roots if root.request.tools), roots[0])
    root_of: dict[Call, Call] = {}
    for call in calls:
        root_of[call] = call if call.parent is None else root_of[call.parent]
    mains = {root for root in roots if root is main or _speaks_like(root.request, main.request)}
    second = next((call.index for call in calls if root_of[call] in mains and call not in main.twins), None)
    by_root = {root: "main" if root in mains else _side_role(root, main, second) for root in roots}
    roles = {call: by_root[root] for call, root in root_of.items()}
    spoken = [call for call in calls if roles[call] == "main"]
    return roles | dict.fromkeys(_compactions(spoken), "compaction")


def _side_role(root: Call, main: Call, second: int | None) -> CallRole:
    """What a conversation beside the main one is for, of which `second` is the second call, if it has one."""
    if root.request.tools or not main.request.tools:
        return "subagent"
    if any(message.role == "assistant" for message in root.request.messages):
        return "compaction"
    return "title" if second is None or root.index < second else "compaction"


def _speaks_like(request: Request, main: Request) -> bool:
    return (
        request.lane == main.lane
        and {tool.name for tool in request.tools} == {tool.name for tool in main.tools}
        and _system(request) == _system(main)
    )


def _system(request: Request) -> list[str]:
    return [message.content for message in takewhile(lambda message: message.role == "system", request.messages)]


def _compactions(spoken: Sequence[Call]) -> Iterator[Call]:
    """The main calls that were asked to sum up."""
    tries: list[list[Call]] = []
    for call in spoken:
        if tries and _asked_again(tries[-1][-1], call):
            tries[-1].append(call)
        else:
            tries.append([call])
    for asked, (following, *_) in pairwise(tries):
        if any(_told(call, following) for call in asked):
            yield from (call for call in asked if not call.children)


def _asked_again(call: Call, following: Call) -> bool:
    """Whether two calls of one place differ at most in how their last message ends."""
    before, after = call.request.messages, following.request.messages
    if call.parent is not following.parent or before[:-1] != after[:-1] or not before or not after:
        return False
    last, again = before[-1], after[-1]
    half = (max(len(last.content), len(again.content)) + 1) // 2
    return last.role == again.role and last.content[:half] == again.content[:half]


def _told(call: Call, following: Call) -> bool:
    """Whether most of a call's answer, by lines, is in what `following` is told, in the harness's name."""
    if call.turn is None or call.turn.message.tool_calls or call.children:
        return False
    lines = [line for line in map(str.strip, call.turn.message.content.splitlines()) if line]
    told = "\n".join(m.content for m in following.request.messages if m.role in ("system", "user"))
    return bool(lines) and 2 * sum(len(line) for line in lines if line in told) >= sum(map(len, lines))
