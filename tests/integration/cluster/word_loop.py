"""A trivial agent loop: a call or two of the policy, and a reward that depends on the session alone."""

from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

TOKENS = 40


class WordLoop(AgentLoopBase):
    """Session 1 has two segments, session 0 of the first prompt is lost, and odd sessions are rewarded."""

    def __init__(self, trainer_config: Any, server_manager: Any, **_kwargs: Any) -> None:
        self.server_manager = server_manager

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> list[AgentLoopOutput]:
        session = int(kwargs["session_id"])
        if session == 0 and int(kwargs["index"]) == 0:
            return []
        prompt = list(range(10, 42))
        return [
            await self._segment([*prompt, 50 + session], sampling_params, session, number)
            for number in range(2 if session == 1 else 1)
        ]

    async def _segment(self, prompt: list[int], params: dict[str, Any], session: int, number: int) -> AgentLoopOutput:
        found = await self.server_manager.generate(
            f"session-{session}", prompt_ids=[*prompt, number], sampling_params={**params, "max_tokens": TOKENS}
        )
        return AgentLoopOutput(
            prompt_ids=[*prompt, number],
            response_ids=found.token_ids,
            response_mask=[1] * len(found.token_ids),
            response_logprobs=found.log_probs,
            routed_experts=found.routed_experts,
            reward_score=float(session % 2),
            num_turns=1,
            metrics=AgentLoopMetrics(generate_sequences=0.1),
            extra_fields={
                "reward_extra_info": {"solved": float(session % 2)},
                "min_global_steps": found.extra_fields["min_global_steps"],
                "max_global_steps": found.extra_fields["max_global_steps"],
            },
        )
