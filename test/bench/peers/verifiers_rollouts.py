"""Measures the rollouts of verifiers. Usage: verifiers_rollouts.py, with requests as `rollout_requests.py` says."""

import asyncio
import os
from typing import Any

from rollout_requests import QUESTION, look, serve

import verifiers as vf
from datasets import Dataset

os.environ["BENCH_KEY"] = "key"
GROUP = 8


def length(completion: Any, **_: Any) -> float:
    return float(len(str(completion[-1].content or "")))


def environment(turns: int, examples: int) -> vf.Environment:
    prompt = [{"role": "user", "content": QUESTION}]
    shared: dict[str, Any] = {
        "dataset": Dataset.from_list([{"prompt": prompt, "example_id": index} for index in range(examples)]),
        "rubric": vf.Rubric(funcs=[length]),
    }
    return vf.SingleTurnEnv(**shared) if turns == 1 else vf.ToolEnv(tools=[look], max_turns=turns, **shared)


async def run(request: dict[str, Any]) -> int:
    examples = request["rollouts"] // GROUP
    env = environment(request["turns"], examples)
    results = await env.generate(
        env.get_dataset(n=examples).repeat(GROUP),
        client=vf.ClientConfig(api_key_var="BENCH_KEY", api_base_url=f"{request['baseUrl']}/v1"),
        model="bench",
        sampling_args={"logprobs": True},
        max_concurrent=request["inFlight"],
        on_start=lambda *_: None,
        on_progress=lambda *_: None,
    )
    return sum(output["reward"] > 0 for output in results["outputs"])


asyncio.run(serve(run))
