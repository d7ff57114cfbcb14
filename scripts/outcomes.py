"""What to make of every name that a trial's record can hold: the texts of docs/reference/outcomes.md.

Invariant: the names are the code's own. One without a text, or a text without a name, is an error, and a unit test
writes every page.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeAliasType, get_args

from lego_rl.gateway.dialects import DIALECTS
from lego_rl.gateway.dialects.base import Problem
from lego_rl.gateway.trajectory import Accounting, BudgetHit, CallRole, Fate, Refusal, Unheld, Unreadable
from lego_rl.gateway.transcript import NO_TOKENS


@dataclass(frozen=True)
class Explained:
    """What one name means to a reader.

    Attributes:
        means: What happened.
        normal: Where it is nothing to worry about.
        do: What to do otherwise, or where to look.
    """

    means: str
    normal: str
    do: str


COUNTS: Mapping[str, Explained] = {
    "calls": Explained("model calls that the engine answered", "", ""),
    "sampled_tokens": Explained("tokens of all of them", "", ""),
    "delivered_tokens": Explained(
        "of these, tokens that the harness went on with or got last",
        "nearly all",
        "`excluded` below",
    ),
    "trainable_tokens": Explained(
        "of these, tokens that have mask 1 in a segment",
        "all but those of roles that do not train",
        "`excluded` below",
    ),
    "excluded": Explained("why the others are not trained", "", "below"),
    "tool_parse_faults": Explained(
        "answers with a tool call that could not be read, though the policy ended them",
        "while a policy learns the format",
        "all answers of the first step: the run stops, `policy.tool_parser` is not what the template writes",
    ),
    "truncated": Explained(
        "answers that `budget.output_tokens`, or the end of the context, cut",
        "few",
        "many: raise `budget.output_tokens`; a policy that never stops may lack its stop token in"
        " `generation_config.json`",
    ),
    "tool_calls": Explained("answers with a call that could be read", "", "none: see `tool_parse_faults`"),
    "budget_hit": Explained("which budget ended the session, if one did", "", "below"),
    "refused": Explained("requests for which no model call was completed", "", "below"),
}

FATES: Mapping[str, Explained] = {
    "delivered": Explained(
        "a later request holds the answer, if only its beginning, or names all calls in it; or it was fully written and"
        " nothing replaced it",
        "always",
        "nothing: it is trained, unless `excluded` says why not",
    ),
    "superseded": Explained(
        "the harness asked the very same again and went on with another answer: the newest that was fully written,"
        " unless a later request holds an older one",
        "a few in a run: clients ask again after a broken stream or a time limit of their own; two sub-agents with the"
        " very same prompt, where [nothing says who asks](../capture.md#who-is-calling)",
        "in many trials: see in `logs/harness.stderr` why the harness asks again, and compare `seconds/engine` with its"
        " time limit",
    ),
    "abandoned": Explained(
        "the client was gone before the answer was fully written, and never asked again",
        "the last call of a trial whose harness was killed or gave up",
        "before the last call: `logs/harness.stderr`; the engine may be slower than the harness waits",
    ),
}

OF_A_FATE = Explained("the tokens of answers with that fate", "as there", "as there")

UNHELD: Mapping[str, Explained] = {
    "cut": Explained(
        "the end of answers of which a later request holds only the beginning",
        "a few: a stream broke off, and the harness kept the text that it had",
        "in many trials: something between harness and gateway breaks connections; `lego-rl harness test NAME` shows"
        " what the harness does by itself",
    ),
}
"""Reasons that are no fates."""

OF_A_ROLE = Explained(
    "calls of a role that `capture.train_roles` leaves out",
    "where the recipe leaves the role out; by default that is `title` alone",
    "a call with the wrong role: how each is told is in [capture.md](../capture.md#who-is-calling)",
)

OF_A_KIND = Explained(
    "what was sampled after a part of that kind, which a text model cannot see; `other` is whatever else a request"
    " calls one",
    "where the harness has a tool that returns pictures or files",
    "take that tool away in `[harness.options]` if it costs much of `delivered_fraction`",
)

OF_A_CHAT_BACKEND = Explained(
    "a chat backend answered: it gives no token ids, so nothing of it can be trained on",
    "all of a trial whose engine is an endpoint",
    "nothing: such trials are for evaluation",
)

REFUSED: Mapping[str, Explained] = {
    "turns": Explained(
        "a request after the last turn of the budget: answered with a plain last turn",
        "once or a few times in a trial: harnesses end on it",
        "many in one trial, which then ends in `agent_timeout`: the harness takes no answer without a call as the end",
    ),
    "attempts": Explained(
        "16 model calls were begun, or prompts too long, for each turn of the budget: answered with a plain last turn",
        "never",
        "the client hangs up and asks again without end, the engine fails every time, or the harness sends what does"
        " not fit again and again: see `client_gone`, `engine_error` and `context` of the same trial",
    ),
    "wall_clock": Explained(
        "the time was up: a running call was aborted, and it and later requests got a plain last turn",
        "where tasks are long for `budget.wall_clock_sec`",
        "raise it, or look at `seconds` in `outcome.json` for where the time goes",
    ),
    "context": Explained(
        "a prompt that leaves no room for an answer: the protocol's own error, status 400",
        "in long trials; the harness summarises and goes on, or ends",
        "at the first request: the harness's own prompt is larger than `budget.context_tokens`"
        " ([sizes](../harnesses.md#what-a-first-prompt-takes))",
    ),
    "closed": Explained(
        "the session was over when the request came: answered with a plain last turn",
        "always; no record has it, for it is counted after the record was made",
        "nothing",
    ),
    "count": Explained(
        "a count of prompt tokens, where 16 for each turn were used up or no turn was left: status 400",
        "after the end of a budget",
        "nothing: harnesses estimate the length by themselves then",
    ),
    "superseded": Explained(
        "the very same request came again while the engine was at work: the older call was aborted, and whoever still"
        " waits for it gets the newer one's answer. Of the older call there is no other record than this count",
        "a few in a run",
        "as for the fate of that name",
    ),
    "client_gone": Explained(
        "nobody waited for the answer any more: the engine's call was aborted, and nothing of it is recorded",
        "the last request of a killed harness; a few time limits",
        "in many trials: the engine is slower than the harness waits; lower `rollout.concurrency`",
    ),
    "prompt": Explained(
        "a chat backend refused the conversation for what is in it, while it answered others: a 400",
        "never with an engine; rarely with an endpoint: its content filter, or a harness that it does not understand",
        "the harness's log says what the endpoint said; set engine.extra or engine.output_key, or another harness",
    ),
    "engine_error": Explained(
        "the engine failed: answered with 529 or 503, on which clients try again",
        "never; a trial in which the next try was answered counts as if nothing had happened",
        "the engine's own log; trials in which it lasts end in `engine_failed` and are run again",
    ),
    "internal": Explained(
        "an error that nobody foresaw while sampling: status 500, and every later request of the session too",
        "never",
        "a bug: the traceback is on the command's standard error. The trial ends in `unattributed_after`; more than 5 %"
        " of a step stop the run",
    ),
}

PROBLEMS: Mapping[str, str] = {
    "bad_request": "the body breaks the protocol or cannot be read, the chat template refuses the conversation, or no"
    " count of tokens is left. The text says which, and where. Only the last is counted (`count`)",
    "too_large": "the body is over [the limit](../capture.md#what-a-sandbox-can-ask-for)",
    "stalled": "the rest of the body did not come within 30 s: the client stopped sending. Nothing is counted",
    "context": "the prompt is over the budget: `refused` has `context`",
    "overloaded": "the engine failed, to be tried again: `refused` has `engine_error`",
    "internal": "a sample contradicts itself (the trial ends in `capture_failed`), or `internal` of `refused`",
}


def outcomes_page() -> Iterator[str]:
    """The parts of docs/reference/outcomes.md below its head."""
    yield _INTRODUCTION
    yield "## Counts\n\n`accounting` in `outcome.json`, of one trial. Tokens are sampled ones.\n"
    yield _table("count", explained((field.name for field in fields(Accounting)), COUNTS))
    yield "## Fate of an answer\n\n`fate` of a call.\n"
    yield _table("fate", explained(names_of(Fate), FATES))
    yield f"## Why tokens are not trained\n\n{_EXCLUDED}\n"
    fates = [name for name in names_of(Unheld) if name in FATES]
    rows = {_together(fates): OF_A_FATE}
    rows |= explained((name for name in names_of(Unheld) if name not in FATES), UNHELD)
    rows |= {_together(f"role_{role}" for role in names_of(CallRole)): OF_A_ROLE}
    yield _table("excluded", rows | {_together(names_of(Unreadable)): OF_A_KIND, NO_TOKENS: OF_A_CHAT_BACKEND})
    yield f"## Requests without a completed model call\n\n{_REFUSED}{_together(names_of(BudgetHit))}`.\n"
    yield _table("refused", explained(names_of(Refusal), REFUSED))
    yield f"## Answers that are errors\n\n{_PROBLEMS}\n"
    yield _statuses()


def explained[T](names: Iterable[str], texts: Mapping[str, T]) -> dict[str, T]:
    """The texts in the order of the names.

    Raises:
        LookupError: A name has no text, or a text no name.
    """
    known = list(names)
    if set(known) != set(texts):
        raise LookupError(f"names and texts differ: {sorted(set(known) ^ set(texts))}")
    return {name: texts[name] for name in known}


def names_of(alias: Any) -> list[str]:
    """The members of a type of literals, in their order."""
    if isinstance(alias, TypeAliasType):
        return names_of(alias.__value__)
    return [name for part in get_args(alias) for name in ([part] if isinstance(part, str) else names_of(part))]


def _table(head: str, rows: Mapping[str, Explained]) -> str:
    lines = [f"| {head} | means | normal | otherwise |", "| --- | --- | --- | --- |"]
    lines += [f"| `{name}` | {text.means} | {text.normal} | {text.do} |" for name, text in rows.items()]
    return "\n".join(lines) + "\n"


def _statuses() -> str:
    """What every dialect answers, asked of the dialects."""
    paths = [f"`{dialect.completion_path}`" for dialect in DIALECTS]
    lines = [f"| problem | {' | '.join(paths)} | means |", f"| --- | {'--- | ' * len(paths)}--- |"]
    texts = explained(names_of(Problem), PROBLEMS)
    problems: tuple[Problem, ...] = get_args(Problem.__value__)
    for problem in problems:
        answers = [str(dialect.failure(problem, Exception()).status) for dialect in DIALECTS]
        lines.append(f"| `{problem}` | {' | '.join(answers)} | {texts[problem]} |")
    return "\n".join(lines) + "\n"


def _together(names: Iterable[str]) -> str:
    """Several names of one row, without the outer marks of code."""
    return "`, `".join(names)


_INTRODUCTION = """What the names in a trial's record mean, whether they are normal, and where to look. `lego-rl inspect
RUN/trials/ID` prints them, `outcome.json` holds them. How a trial ended is in the [fault table](../faults.md); why a
run was stopped, in [training.md](../training.md#what-to-do).
"""
_EXCLUDED = """Keys of `excluded` in the accounting, with the tokens that each took. `sampled_tokens` is
`trainable_tokens` plus all of them, and `delivered_fraction` is `trainable_tokens` ÷ `sampled_tokens`."""
_REFUSED = """Keys of `refused` in the accounting, with the requests that each took. No model call was completed for
them; some are answered all the same, as the table says. `budget_hit` is the one that ended the session, if one of these
did: `"""
_PROBLEMS = """Status of a request that gets no answer, by dialect; an error event where a stream has begun. A wrong
address or secret is a bare 404."""
