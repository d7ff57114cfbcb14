"""The official client libraries against a real server on a real socket: the same conversation, the same segments."""

import json

import anthropic
import openai
import pytest
from gateway_kit import BASH, call_text, spell_oddly, tape
from wires import served

from lego_rl.gateway.budget import Budget
from lego_rl.gateway.trajectory import Trajectory

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
            async with served(engine, seed=5) as at:
                await talk(at.url, stream=stream)
                trajectory = await at.close()
            found.append(raw(trajectory))
            assert trajectory.accounting.trainable_tokens == sum(len(sample.token_ids) for sample in engine.samples)
            assert trajectory.accounting.delivered_fraction == 1.0
            (segment,) = trajectory.segments
            assert segment.route_coverage == 1.0
            last = engine.samples[-1]
            assert segment.token_ids.tolist() == [*last.prompt_ids, *last.token_ids]
    assert found[0] == found[1] == found[2] == found[3]


async def test_official_clients_list_models_and_count_tokens() -> None:
    async with served(tape([])) as at:
        async with openai.AsyncOpenAI(base_url=f"{at.url}/v1", api_key="x") as client:
            assert [model.id async for model in client.models.list()] == ["policy"]
        async with anthropic.AsyncAnthropic(base_url=at.url, api_key="x") as client:
            assert [model.id async for model in client.models.list()] == ["policy"]
            counted = await client.messages.count_tokens(
                model="policy", messages=[{"role": "user", "content": "Hello"}]
            )
            assert counted.input_tokens > 0
        trajectory = await at.close()
        assert trajectory.accounting.calls == 0
        assert trajectory.segments == ()


async def test_official_clients_see_their_own_errors() -> None:
    budget = Budget(context_tokens=20)
    async with served(tape([]), budget) as at:
        async with openai.AsyncOpenAI(base_url=f"{at.url}/v1", api_key="x", max_retries=0) as client:
            with pytest.raises(openai.BadRequestError) as openai_error:
                await client.chat.completions.create(
                    model="policy", messages=[{"role": "user", "content": "long " * 99}]
                )
        assert openai_error.value.code == "context_length_exceeded"
        async with anthropic.AsyncAnthropic(base_url=at.url, api_key="x", max_retries=0) as client:
            with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: [0-9]+ tokens > 20 maximum"):
                await client.messages.create(
                    model="policy", max_tokens=9, messages=[{"role": "user", "content": "long " * 99}]
                )
        accounting = (await at.close()).accounting
        assert accounting.budget_hit == "context"
        assert accounting.refused == {"context": 2}
