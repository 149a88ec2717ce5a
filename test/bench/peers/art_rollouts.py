"""Measures ART's rollouts. Usage: art_rollouts.py, with requests as `rollout_requests.py` says and "transport": "httpx"
for ART's own client or "aiohttp" for the transport that the openai client has for many connections."""

import asyncio
import json
from typing import Any

from rollout_requests import QUESTION, look, serve

import art
from openai import AsyncOpenAI, DefaultAioHttpClient
from openai.types.chat import ChatCompletionToolParam
import httpx

GROUP = 8
TOOL: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    },
}


async def run(request: dict[str, Any]) -> int:
    url = f"{request['baseUrl']}/v1"
    model = art.Model(
        name="bench", project="bench", inference_model_name="bench", inference_base_url=url, inference_api_key="key"
    )
    client = model.openai_client()
    if request["transport"] == "aiohttp":
        limits = httpx.Limits(max_connections=100_000, max_keepalive_connections=100_000)
        client = AsyncOpenAI(
            base_url=url, api_key="key", http_client=DefaultAioHttpClient(limits=limits, timeout=1200)
        )
    free = asyncio.Semaphore(request["inFlight"])

    async def rollout() -> art.Trajectory:
        async with free:
            messages: list[Any] = [{"role": "user", "content": QUESTION}]
            trajectory = art.Trajectory(messages_and_choices=messages, reward=0.0)
            tools: dict[str, Any] = {} if request["turns"] == 1 else {"tools": [TOOL]}
            for _ in range(request["turns"]):
                completion = await client.chat.completions.create(
                    model="bench", messages=trajectory.messages(), logprobs=True, **tools
                )
                choice = completion.choices[0]
                trajectory.messages_and_choices.append(choice)
                for call in choice.message.tool_calls or []:
                    result = look(**json.loads(call.function.arguments))
                    trajectory.messages_and_choices.append(
                        {"role": "tool", "tool_call_id": call.id, "content": result}
                    )
                if not choice.message.tool_calls:
                    trajectory.reward = float(len(choice.message.content or ""))
                    break
            return trajectory.finish()

    groups = await art.gather_trajectory_groups(
        (art.TrajectoryGroup(rollout() for _ in range(GROUP)) for _ in range(request["rollouts"] // GROUP)),
        pbar_desc=None,
    )
    await client.close()
    return sum(trajectory.reward > 0 for group in groups for trajectory in group)


asyncio.run(serve(run))
