"""Run the OpenHands SDK headless: one conversation, the prompt on standard input, the set-up in one JSON argument.

It runs inside the sandbox in the bundle's own Python and imports nothing but the standard library and OpenHands, whose
public API it uses and changes nothing of. Its output is a log for people; nobody parses it.
"""

import gc
import importlib
import json
import os
import sys
from typing import Any

# These serve the start of this very process and would disturb what it runs in its terminal.
START_ONLY = ("LD_LIBRARY_PATH", "PYDANTIC_DISABLE_PLUGINS")


def main() -> None:
    """Run the conversation to its end; a failure keeps its traceback and gives exit status 1."""
    setup: dict[str, Any] = json.loads(sys.argv[1])
    prompt = sys.stdin.read()
    sys.path.append(setup["site_packages"])
    # The import builds some 2,800 pydantic classes that all stay; garbage collection would be a quarter of its time.
    gc.disable()
    sdk = importlib.import_module("openhands.sdk")
    for tool in setup["tools"]:
        importlib.import_module(f"openhands.tools.{tool['name']}")
    gc.freeze()
    gc.enable()
    for name in START_ONLY:
        os.environ.pop(name, None)

    llm = sdk.LLM(usage_id="agent", **setup["llm"])
    agent: dict[str, Any] = dict(setup["agent"])
    if setup["condenser"] is not None:
        condenser_llm = llm.model_copy(update={"usage_id": "condenser"})
        agent["condenser"] = sdk.LLMSummarizingCondenser(llm=condenser_llm, **setup["condenser"])
    conversation = sdk.Conversation(
        agent=sdk.Agent(llm=llm, tools=[sdk.Tool(**tool) for tool in setup["tools"]], **agent),
        workspace=setup["workdir"],
        visualizer=None,
        **setup["conversation"],
    )
    try:
        conversation.send_message(prompt)
        conversation.run()
        print("status:", conversation.state.execution_status.value, flush=True)
    finally:
        # Ends the terminal's shell or tmux server, which would otherwise stay behind.
        conversation.close()


if __name__ == "__main__":
    main()
