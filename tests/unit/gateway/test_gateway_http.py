"""The official client libraries against a real server on a real socket: the same conversation, the same segments."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import openai
import pytest
from capture_oracle import check_laws
from gateway_kit import BASH, START, call_text, result, spell, spell_oddly, tape, user
from served import Served, served
from wire import Wire
from wires import FORMS

from lego_rl.gateway.budget import Budget
from lego_rl.gateway.settings import CaptureSettings
from lego_rl.gateway.trajectory import Trajectory
from lego_rl.messages import Message

LS, PWD, CAT = {"command": "ls"}, {"command": "pwd"}, {"command": "cat a.py", "timeout": 5}
TALK = [
    f"<think>\nWhere am I?\n</think>\n\nBoth.\n{call_text('bash', LS)}\n{call_text('bash', PWD)}",
    call_text("bash", CAT),
    spell_oddly("Done: it adds."),
]
OUTPUTS = [["a.py\nb.py", "/repo"], ["print('<|im_end|>')"], None]
NOTE = "The tests are slow today."
"""What the harness says in the system's name after the first results."""


async def talk_anthropic(url: str, *, stream: bool) -> None:
    async with anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0) as client:
        messages: list[Any] = [{"role": "user", "content": "Mend it."}]
        arguments: dict[str, Any] = {
            "model": "policy",
            "max_tokens": 99,
            "system": [{"type": "text", "text": "You mend code.", "cache_control": {"type": "ephemeral"}}],
            "tools": [{"name": BASH.name, "description": BASH.description, "input_schema": BASH.parameters}],
        }
        for outputs in OUTPUTS:
            if stream:
                async with client.messages.stream(messages=messages, **arguments) as events:
                    message = await events.get_final_message()
            else:
                message = await client.messages.create(messages=messages, **arguments)
            messages.append({"role": "assistant", "content": [block.model_dump() for block in message.content]})
            if outputs is None:
                assert message.stop_reason == "end_turn"
                continue
            assert message.stop_reason == "tool_use"
            calls = [block for block in message.content if block.type == "tool_use"]
            results = [
                {"type": "tool_result", "tool_use_id": call.id, "content": output}
                for call, output in zip(calls, outputs, strict=True)
            ]
            messages.append({"role": "user", "content": results})
            if len(calls) == 2:
                assert message.content[0].thinking == "Where am I?"
                messages.append({"role": "system", "content": NOTE})
        assert message.usage.output_tokens == len(TALK[2])


async def talk_chat(url: str, *, stream: bool) -> None:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        messages: list[Any] = [
            {"role": "system", "content": "You mend code."},
            {"role": "user", "content": [{"type": "text", "text": "Mend it."}]},
        ]
        function = {"name": BASH.name, "description": BASH.description, "parameters": BASH.parameters}
        tools: Any = [{"type": "function", "function": function}]
        for outputs in OUTPUTS:
            if stream:
                async with client.chat.completions.stream(
                    model="policy", messages=messages, tools=tools, stream_options={"include_usage": True}
                ) as events:
                    completion = await events.get_final_completion()
            else:
                completion = await client.chat.completions.create(model="policy", messages=messages, tools=tools)
            choice = completion.choices[0]
            messages.append(choice.message.model_dump(exclude_none=True, exclude={"parsed"}))
            if outputs is None:
                assert choice.finish_reason == "stop"
                continue
            assert choice.finish_reason == "tool_calls"
            calls = choice.message.tool_calls
            messages += [
                {"role": "tool", "tool_call_id": call.id, "content": output}
                for call, output in zip(calls, outputs, strict=True)
            ]
            if len(calls) == 2:
                messages.append({"role": "developer", "content": NOTE})
        assert completion.usage.completion_tokens == len(TALK[2])


async def talk_responses(url: str, *, stream: bool) -> None:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        items: list[Any] = [{"role": "user", "content": "Mend it."}]
        arguments: dict[str, Any] = {
            "model": "policy",
            "instructions": "You mend code.",
            "tools": [
                {
                    "type": "function",
                    "name": BASH.name,
                    "description": BASH.description,
                    "parameters": BASH.parameters,
                    "strict": False,
                }
            ],
            "store": False,
        }
        for outputs in OUTPUTS:
            if stream:
                async with client.responses.stream(input=items, **arguments) as events:
                    response: Any = await events.get_final_response()
            else:
                response = await client.responses.create(input=items, **arguments)
            assert response.status == "completed"
            items += [item.to_dict() for item in response.output]
            if outputs is None:
                assert response.output_text == "Done: it adds."
                continue
            calls = [item for item in response.output if item.type == "function_call"]
            items += [
                {"type": "function_call_output", "call_id": call.call_id, "output": output}
                for call, output in zip(calls, outputs, strict=True)
            ]
            if len(calls) == 2:
                assert [item.type for item in response.output[:2]] == ["reasoning", "message"]
                items.append(
                    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": NOTE}]}
                )
        assert response.usage.output_tokens == len(TALK[2])


TALKS: dict[str, Callable[..., Awaitable[None]]] = {
    "anthropic": talk_anthropic,
    "openai-chat": talk_chat,
    "openai-responses": talk_responses,
}


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
    for talk in TALKS.values():
        for stream in (False, True):
            engine = tape(TALK)
            async with served(engine, seed=5) as at:
                await talk(at.url, stream=stream)
                trajectory = await at.close()
            found.append((raw(trajectory), trajectory.conversations, [each.seed for each in engine.samplings]))
            assert trajectory.accounting.trainable_tokens == sum(len(sample.token_ids) for sample in engine.samples)
            assert trajectory.accounting.delivered_fraction == 1.0
            (segment,) = trajectory.segments
            assert segment.route_coverage == 1.0
            last = engine.samples[-1]
            assert segment.token_ids.tolist() == [*last.prompt_ids, *last.token_ids]
    assert all(each == found[0] for each in found)


MODES = [CaptureSettings(reasoning="keep"), CaptureSettings(reasoning="as_sent")]
FORKED = [
    f"<think>\nWhere am I?\n</think>\n\nLook.\n{call_text('bash', LS)}\n{call_text('bash', PWD)}",
    f"<think>\nA sub-agent.\n</think>\n\n{call_text('bash', PWD)}",
    spell_oddly(f"I read.\n{call_text('bash', CAT)}"),
    "It is in a.py.",
    "Lost on its way.",
    call_text("bash", LS),
    f"<think>\nA note.\n</think>\n\n{call_text('bash', CAT)}",
    "The sum of it all.",
    "Done: it adds.",
]


async def talk_with_forks(at: Served, wire: Wire) -> None:
    """A main conversation with a sub-agent, a lost answer, a reminder inside the history, and a compaction."""

    async def turn(messages: list[Message]) -> list[Message]:
        answer = await at.ask(wire, messages)
        return [*messages, answer, *(result(call, f"{call.id} <|im_end|>") for call in answer.tool_calls)]

    main = await turn(START)
    sub = await turn([Message("system", "You explore."), user("Where is it?")])
    main = await turn(main)
    await turn(sub)
    await at.ask(wire, main)
    main = await turn(main)
    await turn([*main[:5], user("Remember the tests."), *main[5:]])
    summary = await at.ask(wire, [*main, user("Sum up.")])
    await at.ask(wire, [START[0], user(f"So far: {summary.content}")])


@pytest.mark.parametrize("capture", MODES, ids=[mode.reasoning for mode in MODES])
async def test_forks_and_sub_agents_are_the_same_in_every_dialect_whole_and_streamed(capture: CaptureSettings) -> None:
    found = []
    for wire in FORMS.values():
        async with served(engine := tape(FORKED), seed=5, capture=capture) as at:
            await talk_with_forks(at, wire)
            trajectory = await at.close()
        calls = [
            (call.role, call.fate, call.parent, call.kept, call.delivered_prefix) for call in trajectory.generations
        ]
        seeds = [each.seed for each in engine.samplings]
        found.append((raw(trajectory), trajectory.conversations, trajectory.accounting, calls, seeds))
        delivered = {sample.call_id for index, sample in enumerate(engine.samples) if index != 4}
        check_laws(trajectory, engine.samples, delivered)
    assert len(trajectory.segments) == 4, "main, sub-agent, fork, and what follows the compaction"
    assert {role for role, *_ in calls} == {"main", "subagent", "compaction"}
    assert all(each == found[0] for each in found)


async def test_official_clients_list_models_and_count_tokens() -> None:
    async with served(tape([])) as at:
        async with openai.AsyncOpenAI(base_url=f"{at.url}/v1", api_key="x") as client:
            assert [model.id async for model in client.models.list()] == ["policy"]
            assert (await client.models.retrieve("any-name")).id == "any-name"
            tokens = await client.responses.input_tokens.count(model="policy", input="Hello")
            assert tokens.object == "response.input_tokens"
        async with anthropic.AsyncAnthropic(base_url=at.url, api_key="x") as client:
            assert [model.id async for model in client.models.list()] == ["policy"]
            assert (await client.models.retrieve("any-name")).id == "any-name"
            counted = await client.messages.count_tokens(
                model="policy", messages=[{"role": "user", "content": "Hello"}]
            )
            assert counted.input_tokens == tokens.input_tokens > 0
        trajectory = await at.close()
        assert trajectory.accounting.calls == 0
        assert trajectory.segments == ()


async def test_official_clients_see_their_own_errors() -> None:
    budget = Budget(context_tokens=20)
    long = "long " * 99
    async with served(tape([]), budget) as at:
        async with openai.AsyncOpenAI(base_url=f"{at.url}/v1", api_key="x", max_retries=0) as client:
            with pytest.raises(openai.BadRequestError) as overflow:
                await client.chat.completions.create(model="policy", messages=[{"role": "user", "content": long}])
            assert overflow.value.code == "context_length_exceeded"
            with pytest.raises(openai.BadRequestError) as overflow:
                await client.responses.create(model="policy", input=long)
            assert overflow.value.code == "context_length_exceeded"
            with pytest.raises(openai.BadRequestError) as stored:
                await client.responses.create(model="policy", input="Go on.", previous_response_id="resp_1")
            assert (stored.value.param, stored.value.code) == ("previous_response_id", "previous_response_not_found")
            for kept in ({"conversation": "c1"}, {"background": True}, {"prompt": {"id": "p1"}}):
                with pytest.raises(openai.BadRequestError) as unsupported:
                    await client.responses.create(model="policy", input="Go on.", **kept)
                assert unsupported.value.code == "unsupported_parameter"
        async with anthropic.AsyncAnthropic(base_url=at.url, api_key="x", max_retries=0) as client:
            with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: [0-9]+ tokens > 20 maximum"):
                await client.messages.create(model="policy", max_tokens=9, messages=[{"role": "user", "content": long}])
        accounting = (await at.close()).accounting
        assert accounting.budget_hit == "context"
        assert accounting.refused == {"context": 3}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_an_answer_that_the_token_limit_cut_says_so(stream: bool) -> None:
    async with served(tape([spell("word " * 50)] * 3), Budget(output_tokens=5)) as at:
        async with openai.AsyncOpenAI(base_url=f"{at.url}/v1", api_key="x", max_retries=0) as client:
            if stream:
                events = [event async for event in await client.responses.create(model="m", input="Hi", stream=True)]
                assert events[-1].type == "response.incomplete"
                response = events[-1].response
            else:
                response = await client.responses.create(model="m", input="Hi")
            assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
            assert response.output[0].status == "incomplete"
            assert response.output_text
            chat: list[Any] = [{"role": "user", "content": "Hi"}]
            if stream:
                chunks = [
                    chunk async for chunk in await client.chat.completions.create(model="m", messages=chat, stream=True)
                ]
                assert chunks[-1].choices[0].finish_reason == "length"
            else:
                completion = await client.chat.completions.create(model="m", messages=chat)
                assert completion.choices[0].finish_reason == "length"
        async with anthropic.AsyncAnthropic(base_url=at.url, api_key="x", max_retries=0) as client:
            message = await client.messages.create(model="m", max_tokens=9, messages=chat)
            assert message.stop_reason == "max_tokens"
