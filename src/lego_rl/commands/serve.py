"""``lego-rl serve policy``: a policy's server, started as rollouts need it."""

from pathlib import Path

import typer

from lego_rl.commands.policies import policy_directory
from lego_rl.documents import read_json
from lego_rl.engine.vllm.launch import Launch, Placement, ServedModel, launch
from lego_rl.errors import ConfigError
from lego_rl.gateway.template import ChatTemplate
from lego_rl.gateway.tool_calls import PARSERS
from lego_rl.gateway.tool_calls.probe import check_parser, fitting_parsers


def show(model: str, place: Placement, tool_parser: str | None) -> None:
    """Print the line.

    Raises:
        LegoError: The policy cannot be served so.
    """
    typer.echo(planned(model, place, tool_parser).line())


def run(model: str, place: Placement, tool_parser: str | None) -> None:
    """Print the line and become the server.

    Raises:
        LegoError: The policy cannot be served so, or vLLM is not installed there.
    """
    made = planned(model, place, tool_parser)
    if not Path(made.arguments[0]).exists():
        raise ConfigError(f"there is no vLLM in {place.environment}", "run: make setup-vllm, or name --environment DIR")
    typer.echo(made.line(), err=True)
    made.become()


def planned(model: str, place: Placement, tool_parser: str | None) -> Launch:
    """The line for a policy as recipes name it.

    Args:
        model: A folder or ``builtin:NAME``.
        place: Where it is served.
        tool_parser: Of the policy's tool calls; ``None`` takes the one that reads what its template writes.

    Raises:
        LegoError: The policy is incomplete, or the parser does not read its calls.
    """
    folder = policy_directory(model)
    return launch(_described(folder, _parser(folder, tool_parser)), place)


def _parser(folder: Path, name: str | None) -> str:
    template = ChatTemplate.load(folder)
    if name is not None:
        check_parser(template, name)
        return name
    fitting = fitting_parsers(template)
    if not fitting:
        raise ConfigError(
            f"no tool parser reads the calls that the chat template of {folder} writes",
            f"use a template of one of these formats: {', '.join(PARSERS)}",
        )
    return fitting[0]


def _described(folder: Path, tool_parser: str) -> ServedModel:
    config = read_json((folder / "config.json").read_text(encoding="utf-8"))
    text = config.get("text_config", config)
    return ServedModel(
        path=folder,
        model_type=config["model_type"],
        context=text["max_position_embeddings"],
        experts=text.get("num_experts", text.get("num_local_experts", 0)),
        tool_parser=tool_parser,
    )
