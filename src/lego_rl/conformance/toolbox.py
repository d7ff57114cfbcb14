"""The tools that a prompt offers, and calls of them.

Invariant: a call fills in everything that the tool's schema requires.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lego_rl.harness.base import ToolUse
from lego_rl.messages import Json

_TOOLS = re.compile(r"<tools>\n(.*?)\n</tools>", re.DOTALL)
_FILLER: Mapping[str, Json] = {"string": "A step of the job.", "boolean": False, "integer": 1, "number": 1, "array": []}


@dataclass(frozen=True)
class Toolbox:
    """What is offered, in the order of the prompt: name → JSON schema of the parameters."""

    tools: Mapping[str, Mapping[str, Any]]

    @classmethod
    def read(cls, prompt: str) -> "Toolbox":
        """Read the tools of a prompt of the demo policy's template; none, if it has none."""
        found = _TOOLS.search(prompt)
        offered = [json.loads(line) for line in found.group(1).splitlines()] if found else []
        return cls({tool["name"]: tool["parameters"] for tool in offered})

    def use(self, tool: ToolUse | None, text: str) -> str | None:
        """A call that gives a tool its text, if there is such a tool and it is offered."""
        if tool is None or tool.name not in self.tools:
            return None
        known = self.tools[tool.name].get("properties", {})
        return self.call(tool.name, {**{k: v for k, v in tool.further.items() if k in known}, tool.text: text})

    def call(self, name: str, arguments: Mapping[str, Json]) -> str:
        """A call as the policy writes it."""
        values = {**arguments, **self._required(name, arguments)}
        parameters = "".join(
            f"<parameter={key}>\n{value if isinstance(value, str) else json.dumps(value)}\n</parameter>\n"
            for key, value in values.items()
        )
        return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"

    def _required(self, name: str, given: Mapping[str, Json]) -> dict[str, Json]:
        schema = self.tools.get(name, {})
        missing = [key for key in schema.get("required", ()) if key not in given]
        return {key: _filler(schema["properties"].get(key, {})) for key in missing}


def _filler(schema: Mapping[str, Any]) -> Json:
    if schema.get("enum"):
        first: Json = schema["enum"][0]
        return first
    return _FILLER.get(schema.get("type", "string"), "A step of the job.")
