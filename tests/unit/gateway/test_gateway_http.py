"""The official client libraries against a real server on a real socket."""

import contextlib
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass

import anthropic
import openai
from gateway_kit import BASH, Tape, call_text, chat_template, spell_oddly, tape

from lego_rl.gateway.budget import Budget
from lego_rl.gateway.server import Gateway
from lego_rl.gateway.session import Session
from lego_rl.gateway.tool_calls import tool_call_parser
from lego_rl.gateway.trajectory import Trajectory


@dataclass
class Served:
    gateway: Gateway
    session: Session
    url: str


@contextlib.asynccontextmanager
async def served(engine: Tape, budget: Budget | None = None, ping_seconds: float = 3.0) -> AsyncIterator[Served]:
    gateway = Gateway(engine, chat_template(), tool_call_parser("qwen3_coder"), ping_seconds=ping_seconds)
    session = gateway.open(budget or Budget(), temperature=1.0, seed=5)
    sock = socket.create_server(("127.0.0.1", 0))
    listener = await gateway.serve(sock, session)
    try:
        yield Served(gateway, session, f"http://127.0.0.1:{sock.getsockname()[1]}{session.path}")
    finally:
        await listener.close()


LS, CAT = {"command": "ls"}, {"command": "cat a.py", "timeout": 5}
TALK = [call_text("bash", LS), "Now the file.\n" + call_text("bash", CAT), spell_oddly("Done: it adds.")]
OUTPUTS = ["a.py\nb.py", "print('<|im_end|>')"]


async def talk_anthropic(url: str, *, stream: bool) -> None:
    async with anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0) as client:
        messages: list[anthropic.types.MessageParam] = [{"role": "user", "content": "Mend it."}]
        arguments = {
            "model": "policy",
            "max_tokens": 99,
            "system": [{"type": "text", "text": "You mend code.", "cache_control": {"type": "ephemeral"}}],
            "tools": [{"name": BASH.name, "description": BASH.description, "input_schema": BASH.parameters}],
        }
        for output in [*OUTPUTS, None]:
            if stream:
                async with client.messages.stream(messages=messages, **arguments) as events:
                    message = await events.get_final_message()
            else:
                message = await client.messages.create(messages=messages, **arguments)
            messages.append({"role": "assistant", "content": [block.model_dump() for block in message.content]})
            if output is None:
                assert message.stop_reason == "end_turn"
                continue
            assert message.stop_reason == "tool_use"
            call = message.content[-1]
            assert call.type == "tool_use"
            messages.append(
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": output}]}
            )
        assert message.usage.output_tokens == len(TALK[2])


async def talk_openai(url: str, *, stream: bool) -> None:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        messages = [{"role": "system", "content": "You mend code."}, {"role": "user", "content": "Mend it."}]
        tools = [
            {
                "type": "function",
                "function": {"name": BASH.name, "description": BASH.description, "parameters": BASH.parameters},
            }
        ]
        for output in [*OUTPUTS, None]:
            if stream:
                async with client.chat.completions.stream(
                    model="policy", messages=messages, tools=tools, stream_options={"include_usage": True}
                ) as events:
                    completion = await events.get_final_completion()
            else:
                completion = await client.chat.completions.create(model="policy", messages=messages, tools=tools)
            choice = completion.choices[0]
            messages.append(choice.message.model_dump(exclude_none=True, exclude={"parsed"}))
            if output is None:
                assert choice.finish_reason == "stop"
                continue
            assert choice.finish_reason == "tool_calls"
            call = choice.message.tool_calls[0]
            messages.append({"role": "tool", "tool_call_id": call.id, "content": output})
        assert completion.usage.completion_tokens == len(TALK[2])


def raw(trajectory: Trajectory) -> list[tuple[bytes, ...]]:
    return [
        (
            segment.token_ids.tobytes(),
            segment.loss_mask.tobytes(),
            segment.logprobs.tobytes(),
            segment.versions.tobytes(),
            segment.call_ids.tobytes(),
            segment.call_positions.tobytes(),
            json.dumps(segment.calls).encode(),
            segment.routes.tobytes(),
        )
        for segment in trajectory.segments
    ]


async def test_the_same_conversation_gives_the_same_segments_in_every_dialect() -> None:
    found = []
    for talk in (talk_anthropic, talk_openai):
        for stream in (False, True):
            engine = tape(TALK)
            async with served(engine) as at:
                await talk(at.url, stream=stream)
                trajectory = await at.gateway.close(at.session)
            found.append(raw(trajectory))
            assert trajectory.accounting.trainable_tokens == sum(len(sample.token_ids) for sample in engine.samples)
            assert trajectory.accounting.delivered_fraction == 1.0
            (segment,) = trajectory.segments
            assert segment.route_coverage == 1.0
            last = engine.samples[-1]
            assert segment.token_ids.tolist() == [*last.prompt_ids, *last.token_ids]
    assert found[0] == found[1] == found[2] == found[3]
