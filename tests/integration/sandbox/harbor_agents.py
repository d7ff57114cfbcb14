"""Agents for stock Harbor that do what a test says, by import path."""

from typing import Any, override

from harbor.agents.base import BaseAgent


class ScriptAgent(BaseAgent):
    """Runs one shell script in the sandbox."""

    def __init__(self, *args: Any, script: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._script = script

    @staticmethod
    @override
    def name() -> str:
        return "script"

    @override
    def version(self) -> str:
        return "1"

    @override
    async def setup(self, environment: Any) -> None:
        return

    @override
    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        await environment.exec(self._script)
