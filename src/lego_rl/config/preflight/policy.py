"""The policy: that its sizes are known, and that its tool calls can be read."""

from lego_rl.config.preflight.rule import Facts, Finding, Need, Rule, fatal, ok, warn
from lego_rl.config.shapes import PUBLISHED
from lego_rl.gateway.tool_calls import tool_call_parser


def _known(facts: Facts) -> Finding:
    path = facts.recipe.policy.path
    if facts.shape is None:
        return warn(
            f"the sizes of {path} are not known here, so nothing that depends on them was checked",
            f"check where its config.json is; known by name: {', '.join(PUBLISHED)}",
        )
    model = facts.shape
    experts = f", {model.experts} experts" if model.experts else ""
    return ok(f"{model.model_type}, {model.parameters / 10**9:.2f} billion parameters{experts}")


def _parser(facts: Facts) -> Finding:
    name, model = facts.recipe.policy.tool_parser, facts.model
    tool_call_parser(name)
    if model.tool_parser is None:
        return ok(f"tool parser {name}; the template is read where the policy is")
    if model.tool_parser != name:
        return fatal(
            f"the policy's own template writes calls for {model.tool_parser}, policy.tool_parser is {name}",
            f'set policy.tool_parser = "{model.tool_parser}"',
        )
    return ok(f"tool parser {name} is the template's")


RULES = (
    Rule(
        "policy-sizes",
        "the policy's sizes are known",
        "Memory, heads, experts and cache follow from them.",
        "name the policy's folder",
        _known,
    ),
    Rule(
        "tool-parser",
        "tool parser × chat template",
        "With a parser of another format every call stays text: harnesses are never asked to do anything, and all "
        "rewards are 0.",
        "set policy.tool_parser to the template's format",
        _parser,
        frozenset({Need.SHAPE}),
    ),
)
