"""Lengths: the context and its two parts, what the policy and one GPU can hold, and what a harness begins with."""

from lego_rl.config.preflight.rule import Facts, Finding, Need, Rule, fatal, ok, warn
from lego_rl.harness import registry

FIRST_PROMPT = {
    "claude-code": 11_500,
    "codex": 8_600,
    "mini-swe-agent": 860,
    "opencode": 7_200,
    "openhands-sdk": 7_200,
    "qwen-code": 15_900,
}
"""Tokens of a harness's first prompt with its default options, by the tokenizer of Qwen3.5 (docs/harnesses.md)."""
_COMPACTS = ("compact_at_tokens", "autocompact_tokens")
"""Options of harnesses that say at which size of the context a history is summarised."""


def _sums(facts: Facts) -> Finding:
    cluster, context = facts.cluster, facts.recipe.budget.context_tokens
    total = cluster.prompt_tokens + cluster.response_tokens
    said = f"{cluster.prompt_tokens:,} + {cluster.response_tokens:,}"
    if total != context:
        return fatal(
            f"prompt and response are {said} = {total:,} tokens, budget.context_tokens is {context:,}",
            f"set budget.context_tokens = {total}, or change one of the two",
        )
    return ok(f"{said} = {context:,} tokens")


def _output(facts: Facts) -> Finding:
    output, response = facts.recipe.budget.output_tokens, facts.cluster.response_tokens
    if output > response:
        return fatal(f"one call may sample {output:,} tokens, all responses together {response:,}")
    return ok(f"one call samples at most {output:,} tokens")


def _policy(facts: Facts) -> Finding:
    context, held = facts.recipe.budget.context_tokens, facts.model.context
    if context > held:
        return fatal(f"budget.context_tokens is {context:,}, the policy has {held:,} positions")
    return ok(f"the policy has {held:,} positions")


def _microbatch(facts: Facts) -> Finding:
    cluster, context = facts.cluster, facts.recipe.budget.context_tokens
    held = cluster.microbatch_tokens * cluster.sequence_ranks
    said = f"{cluster.microbatch_tokens:,} tokens × {cluster.sequence_ranks} ranks = {held:,}"
    if held < context:
        return fatal(
            f"a micro-batch of {said} cannot hold a context of {context:,}",
            f"set cluster.microbatch_tokens to at least {-(-context // cluster.sequence_ranks)}, or share a sequence "
            "among more ranks",
        )
    return ok(f"a micro-batch of {said} holds a context")


def _first_prompt(facts: Facts) -> Finding:
    harness, prompt = facts.recipe.harness, facts.cluster.prompt_tokens
    takes = FIRST_PROMPT.get(harness.name)
    if takes is None:
        return warn(f"what {harness.name} begins with was never measured")
    if harness.options:
        return ok(f"{harness.name} has options of its own; by default its first prompt takes {takes:,} tokens")
    if takes > prompt:
        return fatal(f"the first prompt of {harness.name} takes {takes:,} tokens, cluster.prompt_tokens is {prompt:,}")
    return ok(f"the first prompt of {harness.name} takes {takes:,} of {prompt:,} tokens")


def _harness(facts: Facts) -> Finding:
    chosen, context = facts.recipe.harness, facts.recipe.budget.context_tokens
    registry.make(chosen.name, chosen.options)
    for name in _COMPACTS:
        at = chosen.options.get(name)
        if isinstance(at, int) and at > context:
            return warn(
                f"{chosen.name} would summarise at {at:,} tokens, and no prompt gets beyond {context:,}",
                f"set harness.options.{name} below budget.context_tokens",
            )
    return ok(f"{chosen.name} takes these options")


RULES = (
    Rule(
        "context-sums",
        "prompt + response = context",
        "verl is told of the two parts, the gateway of their sum; where they differ, servers refuse what the gateway "
        "allows, or keep room that no trial may use.",
        "make cluster.prompt_tokens + cluster.response_tokens = budget.context_tokens",
        _sums,
    ),
    Rule(
        "output",
        "one call's output fits the response",
        "A limit that can never be reached is a limit that somebody believes in.",
        "lower budget.output_tokens",
        _output,
    ),
    Rule(
        "model-context",
        "the policy has positions for the whole context",
        "Beyond its positions a policy was never trained; vLLM refuses to start.",
        "lower budget.context_tokens, or use a policy with more positions",
        _policy,
        frozenset({Need.CLUSTER, Need.SHAPE}),
    ),
    Rule(
        "microbatch",
        "a micro-batch holds a whole context",
        "Rows are never cut. The first one that is longer than a micro-batch stops the trainer, hours into the run.",
        "raise cluster.microbatch_tokens or the ranks that share a sequence",
        _microbatch,
    ),
    Rule(
        "harness",
        "the harness exists and takes its options",
        "A misspelt option is found out by every trial, each as an infrastructure fault.",
        "see docs/harnesses.md for a harness's options",
        _harness,
        frozenset(),
    ),
    Rule(
        "first-prompt",
        "the harness's first prompt fits",
        "What a harness begins with is its own: where it does not fit, every trial ends at its first request.",
        "raise cluster.prompt_tokens, or choose fewer tools and a shorter system prompt in harness.options",
        _first_prompt,
    ),
)
