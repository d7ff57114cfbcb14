"""All rules, in the order in which they are asked: first what needs the recipe alone, then what needs the machine."""

from lego_rl.config.preflight import asynchrony, batches, context, here, loss, memory, mesh, nodes, policy, replay
from lego_rl.config.preflight.rule import Rule

RULES: tuple[Rule, ...] = (
    *policy.RULES,
    *nodes.RULES,
    *mesh.RULES,
    *context.RULES,
    *batches.RULES,
    *asynchrony.RULES,
    *loss.RULES,
    *replay.RULES,
    *memory.RULES,
    *here.RULES,
)
