"""docs/preflight.md: the table of preflight rules for people.

Invariant: every rule of the page is the code's own, in the order in which it is asked.
"""

from collections.abc import Iterator

from lego_rl.config.preflight.rule import Need, Rule
from lego_rl.config.preflight.table import RULES
from lego_rl.config.shapes import PUBLISHED

_INTRODUCTION = """`lego-rl check recipe RECIPE` asks every rule of this page about a recipe before a machine is paid
for, and prints one line for each: `OK`, `WARN` (it may be wrong, or is wasteful) or `FATAL` (the run would fail, or be
another one than the recipe says), what was found, and what to do about it. Its exit code is 1 if anything is fatal.
`lego-rl train RECIPE --backend verl` asks them too, and starts nothing where one is fatal.

    lego-rl check recipe recipes/qwen3.5-35b-a3b-claude-code.toml --offline     # the recipe alone, on any machine
    lego-rl check recipe recipes/one-gpu.toml --set cluster.gpu_memory_gb=16    # and what only the machine can tell
    lego-rl check recipe recipes/one-gpu.toml --json                            # with the reason of each rule

A rule is left out where what it needs is not there: rules of a cluster in a recipe without `[cluster]`, those of the
policy's sizes where neither its `config.json` nor a published model of its name is known, those of the machine with
`--offline`.

Memory and disk are estimates. They are sums of bytes that follow from the policy's sizes and the recipe
(`config/preflight/estimate.py`): weights, gradients and both moments of Adam in float32 over the GPUs that share them,
the layers that are whole on a GPU, the inputs of all layers of a full micro-batch, the layer that is computed again,
logits; for servers weights, activations, and the cache of whole contexts. None of it was compared with a real GPU yet,
and what a mean trial has of the context, a quarter, is an assumption.
"""


def preflight_page() -> Iterator[str]:
    """The parts of docs/preflight.md below its head."""
    yield _INTRODUCTION
    yield "## Rules\n"
    yield "| rule | what is asked | why | what to do | needs |"
    yield "| --- | --- | --- | --- | --- |"
    for rule in RULES:
        yield f"| `{rule.id}` | {rule.checks} | {rule.reason} | {rule.fix} | {needs(rule)} |".replace(
            "NAME |", "`NAME` |"
        )
    yield ""
    yield from _shapes()


def needs(rule: Rule) -> str:
    """What a rule cannot be asked without."""
    words = {Need.CLUSTER: "`[cluster]`", Need.SHAPE: "sizes", Need.MACHINE: "machine"}
    return ", ".join(word for need, word in words.items() if need in rule.needs) or "nothing"


def _shapes() -> Iterator[str]:
    yield "## Published models\n"
    yield (
        "Where a policy's folder is not at hand, the last part of `policy.path` is looked up here"
        " (`config/shapes.py`).\n"
    )
    yield "| name | architecture | size | layers, of full attention | heads, key-value | experts, chosen | positions |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for name, model in PUBLISHED.items():
        experts = f"{model.experts}, {model.top_k}" if model.experts else "none"
        yield (
            f"| `{name}` | `{model.model_type}` | {model.parameters / 10**9:.2f} billion | {model.layers},"
            f" {model.attention_layers} | {model.heads}, {model.kv_heads} | {experts} | {model.context:,} |"
        )
    yield ""
