"""``lego-rl run``; see `lego_rl.cli`."""

from pathlib import Path
from typing import Annotated

import typer

from lego_rl.cli_arguments import SandboxKeys

_BOTH = "give either --endpoint URL with --model NAME, or --policy DIR"


def run(
    text: Annotated[str, typer.Argument(help="What to do, in your own words.")],
    workspace: Annotated[Path, typer.Option(help="The folder to work on; the agent works on a copy.")] = Path(),
    harness: Annotated[str, typer.Option(metavar="NAME", help="Registry name: lego-rl harness list.")] = "claude-code",
    endpoint: Annotated[
        str | None, typer.Option(metavar="URL", help="An OpenAI-compatible endpoint, such as https://host/v1.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Name of the model at the endpoint.")] = None,
    key_env: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="Environment variable that holds the endpoint's key.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="DIR", help="A policy to load here instead, or builtin:demo.")
    ] = None,
    tool_parser: Annotated[str, typer.Option(help="Format of that policy's tool calls.")] = "qwen3_coder",
    apply: Annotated[bool, typer.Option("--apply", help="Apply the change, if nothing was changed meanwhile.")] = False,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the patch to this file, too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in place of the patch.")] = False,
    keep_trajectory: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the conversations, the patch and the harness's output.")
    ] = None,
    include: Annotated[
        list[str], typer.Option(metavar="PATH", help="Hand this over, too, though it is ignored; again for several.")
    ] = [],  # noqa: B006
    environment: Annotated[str, typer.Option(metavar="NAME", help="Isolation: bubblewrap or docker.")] = "bubblewrap",
    image: Annotated[str | None, typer.Option(help="With docker: an image to work in.")] = None,
    turns: Annotated[int, typer.Option(min=1, help="Answered model calls at most.")] = 100,
    context_tokens: Annotated[int, typer.Option(min=16, help="Longest prompt plus answer of one call.")] = 128_000,
    output_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of one answer.")] = 8_192,
    minutes: Annotated[float, typer.Option(min=0.01, help="Longest time of the work.")] = 30.0,
    temperature: Annotated[float, typer.Option(min=0.0, help="Sampling temperature.")] = 1.0,
    options: Annotated[
        list[str], typer.Option("--option", metavar="OPTION=VALUE", help="An option of the harness, such as bare=true.")
    ] = [],  # noqa: B006
    asked: Annotated[
        list[str], typer.Option("--ask", metavar="KEY=VALUE", help="Of the endpoint, such as output_key=... .")
    ] = [],  # noqa: B006
    overrides: SandboxKeys = [],  # noqa: B006
) -> None:
    """Have a policy work on your own folder, in a sandbox, and print its change; --apply makes it."""
    if (endpoint is None) == (policy is None) or (endpoint is None) != (model is None):
        raise typer.BadParameter(_BOTH)
    from lego_rl.commands import run as command
    from lego_rl.commands.check import sandbox_settings
    from lego_rl.commands.run_policies import ChosenPolicy, LocalPolicy, hosted
    from lego_rl.config.load import plain
    from lego_rl.gateway.budget import Budget

    if image is not None and environment != "docker":
        raise typer.BadParameter("--image is for --environment docker")
    if output_tokens >= context_tokens:
        raise typer.BadParameter("--output-tokens must be smaller than --context-tokens")
    images = [] if image is None else [f"sandbox.docker.image={image}"]
    chosen: ChosenPolicy
    if policy is not None:
        chosen = LocalPolicy(policy, tool_parser)
    else:
        chosen = hosted({"url": endpoint, "model": model, "key_env": key_env}, asked)
    command.run(
        text,
        workspace,
        chosen,
        command.Around(
            harness=harness,
            options=plain(options),
            sandbox=sandbox_settings(environment, [*overrides, *images]),
            include=tuple(include),
            temperature=temperature,
            budget=Budget(turns, context_tokens, output_tokens, minutes * 60),
        ),
        command.Wanted(apply=apply, output=output, trajectory=keep_trajectory, as_json=as_json),
    )
