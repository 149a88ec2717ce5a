"""What a user of ART writes, against the service whose address and key are given: python program.py URL KEY PART...

Each part prints one line of JSON. ART is as it comes from its registry.
"""

import asyncio
import json
import random
import sys
from typing import Any

import art
from art.openai import consume_chat_completion_stream
from art.serverless import ServerlessBackend

COLOURS = {"sky": "blue", "grass": "green", "blood": "red", "snow": "white"}
# Fields that ART does not know go where the openai client takes them.
ANSWER = {"structured_outputs": {"choice": list(COLOURS.values())}}


def trainable(name: str) -> art.TrainableModel:
    return art.TrainableModel(name=name, project="colours", base_model="martingale-tiny")


async def rollout(model: art.TrainableModel, thing: str, seed: int) -> art.Trajectory:
    messages: list[Any] = [{"role": "user", "content": f"What colour is {thing}?"}]
    completion = await model.openai_client().chat.completions.create(
        model=model.get_inference_name(), messages=messages, seed=seed, extra_body=ANSWER
    )
    choice = completion.choices[0]
    reward = 1.0 if choice.message.content == COLOURS[thing] else 0.0
    return art.Trajectory(messages_and_choices=[*messages, choice], reward=reward)


async def gather(model: art.TrainableModel, seeds: random.Random, rollouts: int = 16) -> list[art.TrajectoryGroup]:
    return await art.gather_trajectory_groups(
        (
            art.TrajectoryGroup(rollout(model, thing, seeds.randrange(2**31)) for _ in range(rollouts))
            for thing in COLOURS
        ),
        pbar_desc=None,
    )


def mean_reward(groups: list[art.TrajectoryGroup]) -> float:
    rewards = [trajectory.reward for group in groups for trajectory in group]
    return sum(rewards) / len(rewards)


async def checkpoints(backend: ServerlessBackend, model: art.TrainableModel) -> list[int]:
    return [found.step async for found in backend._client.models.checkpoints.list(model_id=model.id)]


async def lives(backend: ServerlessBackend) -> dict[str, Any]:
    """Register, sample, log, train, list checkpoints, delete them and the model."""
    model = trainable("lives")
    await model.register(backend)
    seeds = random.Random(1)
    results = []
    for _ in range(2):
        groups = await gather(model, seeds)
        await model.log(groups, split="train")
        await backend._client.models.log(model_id=model.id, trajectory_groups=groups, split="train")
        results.append(await backend.train(model, groups, learning_rate=2e-3))
    made = await checkpoints(backend, model)
    await model.delete_checkpoints()
    left = await checkpoints(backend, model)
    again = trainable("lives")
    await again.register(backend)
    await backend.delete(model)
    anew = trainable("lives")
    await anew.register(backend)
    return {
        "steps": [result.step for result in results],
        "artifact": results[-1].artifact_name,
        "metrics": results[-1].metrics,
        "made": made,
        "left": left,
        "same": again.id == model.id,
        "anew": anew.id != model.id,
    }


async def converses(backend: ServerlessBackend) -> dict[str, Any]:
    """Two turns, the earlier reply going back as text, and tools."""
    model = trainable("converses")
    await model.register(backend)
    parameters = {"type": "object", "properties": {"thing": {"enum": list(COLOURS)}}, "required": ["thing"]}
    tools: list[Any] = [{"type": "function", "function": {"name": "look", "parameters": parameters}}]

    async def converse(reward: float) -> art.Trajectory:
        trajectory = art.Trajectory(
            messages_and_choices=[{"role": "user", "content": "What colour?"}], tools=tools, reward=reward
        )
        client = model.openai_client()
        for turn in range(2):
            completion = await client.chat.completions.create(
                model=model.get_inference_name(),
                messages=trajectory.messages(),
                tools=tools,
                tool_choice="required" if turn == 0 else "none",
                max_completion_tokens=40,
                temperature=0.7,
            )
            choice = completion.choices[0]
            trajectory.messages_and_choices.append(choice)
            for call in choice.message.tool_calls or []:
                result: Any = {"role": "tool", "tool_call_id": call.id, "content": "blue"}
                trajectory.messages_and_choices.append(result)
        return trajectory.finish()

    groups = await art.gather_trajectory_groups(
        [art.TrajectoryGroup(converse(reward) for reward in (0.0, 1.0))], pbar_desc=None
    )
    result = await backend.train(model, groups)
    return {"step": result.step, "metrics": result.metrics}


async def streams(backend: ServerlessBackend) -> dict[str, Any]:
    """Rollouts that ART's own reader puts together."""
    model = trainable("streams")
    await model.register(backend)

    async def stream(reward: float) -> art.Trajectory:
        messages: list[Any] = [{"role": "user", "content": "What colour is snow?"}]
        chunks = await model.openai_client().chat.completions.create(
            model=model.get_inference_name(),
            messages=messages,
            max_completion_tokens=20,
            temperature=0.7,
            stream=True,
            stream_options={"include_usage": True},
        )
        completion = await consume_chat_completion_stream(chunks)
        return art.Trajectory(messages_and_choices=[*messages, completion.choices[0]], reward=reward)

    group = await art.TrajectoryGroup(stream(reward) for reward in (0.0, 1.0))
    result = await backend.train(model, [group])
    return {"step": result.step, "metrics": result.metrics}


async def stays(backend: ServerlessBackend) -> dict[str, Any]:
    """A job in which no group has a signal, and one after it."""
    model = trainable("stays")
    await model.register(backend)
    groups = await gather(model, random.Random(1))
    rewards = [[trajectory.reward for trajectory in group] for group in groups]
    for group in groups:
        for trajectory in group:
            trajectory.reward = 1.0
    silent = await backend.train(model, groups)
    after_silent = await checkpoints(backend, model)
    for group, own in zip(groups, rewards):
        for trajectory, reward in zip(group, own):
            trajectory.reward = reward
    result = await backend.train(model, groups)
    return {
        "silent": {"step": silent.step, "artifact": silent.artifact_name, "metrics": silent.metrics},
        "after_silent": after_silent,
        "step": result.step,
    }


async def learns(backend: ServerlessBackend, seed: int, steps: int = 12) -> dict[str, Any]:
    """The loop of ART's documentation."""
    model = trainable(f"learns-{seed}")
    await model.register(backend)
    seeds = random.Random(seed)
    rewards = []
    for _ in range(await model.get_step(), steps):
        groups = await gather(model, seeds)
        await model.log(groups, split="train")
        result = await backend.train(model, groups, learning_rate=2e-3)
        await model.log(metrics=result.metrics, step=result.step)
        rewards.append(mean_reward(groups))
    return {"seed": seed, "rewards": rewards}


async def main(url: str, key: str, parts: list[str]) -> None:
    backend = ServerlessBackend(api_key=key, base_url=url)
    single = {part.__name__: part for part in (lives, converses, streams, stays)}

    async def run(part: str) -> None:
        name, _, seed = part.partition(":")
        told = await (learns(backend, int(seed)) if name == "learns" else single[name](backend))
        print(json.dumps({"part": part, **told}), flush=True)

    try:
        outcomes = await asyncio.gather(*(run(part) for part in parts), return_exceptions=True)
    finally:
        await backend.close()
    for part, outcome in zip(parts, outcomes):
        if isinstance(outcome, BaseException):
            print(json.dumps({"part": part, "error": f"{type(outcome).__name__}: {outcome}"}), flush=True)


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
