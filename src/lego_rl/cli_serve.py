"""``lego-rl serve``: arguments of the command that serves a policy; see `lego_rl.cli`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(help="Serve a policy with vLLM.", no_args_is_help=True)


@app.command("policy", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def policy(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="A Hugging Face directory, or builtin:NAME.")],
    environment: Annotated[Path, typer.Option(help="Virtual environment with vLLM.")] = Path(".venv-vllm"),
    device: Annotated[Literal["cpu", "cuda"], typer.Option(help="What it computes on.")] = "cuda",
    dtype: Annotated[Literal["float32", "bfloat16"], typer.Option(help="What it computes in.")] = "bfloat16",
    host: Annotated[str, typer.Option(help="Address it listens at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
    context_tokens: Annotated[
        int | None, typer.Option("--context", min=16, help="Longest prompt plus response; the policy's own by default.")
    ] = None,
    max_running: Annotated[int, typer.Option(min=1, help="Calls in one batch.")] = 64,
    tensor_parallel: Annotated[int, typer.Option(min=1, help="GPUs that share one copy of the policy.")] = 1,
    cache_gib: Annotated[int, typer.Option(min=1, help="Size of the KV cache on a CPU.")] = 4,
    tool_parser: Annotated[
        str | None, typer.Option(help="Format of the policy's tool calls; its template's by default.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the line and stop.")] = False,
) -> None:
    """Print and run the vLLM line that rollouts of this policy need; what follows -- goes to vLLM as it is."""
    from lego_rl.commands import serve as command
    from lego_rl.engine.vllm.launch import Placement

    place = Placement(
        environment=environment,
        platform=device,
        dtype=dtype,
        host=host,
        port=port,
        context=context_tokens,
        max_running=max_running,
        tensor_parallel=tensor_parallel,
        cache_gib=cache_gib,
        further=tuple(context.args),
    )
    if dry_run:
        command.show(model, place, tool_parser)
    else:
        command.run(model, place, tool_parser)
