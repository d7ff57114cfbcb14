"""The tools that a prompt offers, and calls of them, found by what a tool takes rather than by a harness's name.

Invariant: a call fills in everything that the tool's schema requires.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lego_rl.messages import Json

_TOOLS = re.compile(r"<tools>\n(.*?)\n</tools>", re.DOTALL)
_COMMANDS = ("command", "cmd")
_FINISHERS = ("finish", "attempt_completion", "submit")
_DELEGATES = ("agent", "task", "spawn_agent")
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

    def shell(self, command: str) -> str | None:
        """A call that runs a shell command, if a tool takes one."""
        for name, schema in self.tools.items():
            for key in _COMMANDS:
                kind = schema.get("properties", {}).get(key, {})
                if key in schema.get("required", ()) and kind.get("type") == "string" and "enum" not in kind:
                    return self.call(name, {key: command})
        return None

    def finish(self, message: str) -> str | None:
        """A call that ends the run, if there is a tool for that."""
        return self._named(_FINISHERS, message, {})

    def delegation(self, prompt: str, further: Mapping[str, str]) -> str | None:
        """A call that has a sub-agent do something, if there is a tool for that."""
        return self._named(_DELEGATES, prompt, further)

    def call(self, name: str, arguments: Mapping[str, Json]) -> str:
        """A call as the policy writes it."""
        values = {**arguments, **self._required(name, arguments)}
        parameters = "".join(
            f"<parameter={key}>\n{value if isinstance(value, str) else json.dumps(value)}\n</parameter>\n"
            for key, value in values.items()
        )
        return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"

    def _named(self, names: Sequence[str], text: str, further: Mapping[str, str]) -> str | None:
        # A tool in a namespace is shown as ``namespace.name``.
        name = next((name for name in self.tools if name.rpartition(".")[2].lower() in names), None)
        if name is None:
            return None
        known = self.tools[name].get("properties", {})
        key = next((key for key in ("prompt", "message") if key in known), None)
        given: dict[str, Json] = {key: value for key, value in further.items() if key in known}
        return self.call(name, given if key is None else {**given, key: text})

    def _required(self, name: str, given: Mapping[str, Json]) -> dict[str, Json]:
        schema = self.tools.get(name, {})
        missing = [key for key in schema.get("required", ()) if key not in given]
        return {key: _filler(schema["properties"].get(key, {})) for key in missing}


def _filler(schema: Mapping[str, Any]) -> Json:
    if schema.get("enum"):
        first: Json = schema["enum"][0]
        return first
    return _FILLER.get(schema.get("type", "string"), "A step of the job.")
