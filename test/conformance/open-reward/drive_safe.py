"""Drives the environment "Safe" (test/formats/open-reward/serve/safe-file.ts), served at the given address."""

import asyncio
import json
import sys

from openreward import AsyncOpenReward, OpenReward
from openreward.api.errors import SessionTerminatedError, ToolCallError, ToolFailed

url, key = sys.argv[1:3]
seen = {}


def synchronous():
    environment = OpenReward(api_key=key).environments.get(name="Safe", base_url=url)
    seen["splits"] = environment.list_splits()
    seen["tasks"] = [task.task_spec for task in environment.list_tasks("train")]
    seen["range"] = [task.task_spec for task in environment.get_task_range("train", start=-2)]
    seen["count"] = environment.num_tasks("test")
    seen["tools"] = environment.list_tools()
    with environment.session(split="train", index=1) as session:
        seen["prompt"] = [block.text for block in session.get_prompt()]
        seen["messages"] = [[m.role, [b.text for b in m.blocks]] for m in session.get_messages()]
        seen["session_tools"] = [tool.name for tool in session.list_tools()]
        seen["openai_tools"] = session.list_tools(format="openai")[0]
        wrong = session.call_tool("dial", {"digit": 9})
        seen["wrong"] = [wrong.reward, wrong.finished, len(wrong.blocks[0].text), wrong.blocks[0].text[:8]]
        for name, given in [("dial", {"digit": "x"}), ("pick", {})]:
            try:
                session.call_tool(name, given)
            except ToolCallError as error:
                seen.setdefault("malformed", []).append(error.reason)
        right = session.call_tool("dial", {"digit": 2})
        seen["right"] = [right.reward, right.finished, right.blocks[0].text, right.metadata["stop_reason"]]
        try:
            session.call_tool("dial", {"digit": 2})
        except ToolCallError as error:
            seen["after"] = error.reason


async def asynchronous():
    environment = AsyncOpenReward(api_key=key).environments.get(name="Safe", base_url=url)
    [task] = await environment.list_tasks("test")
    async with environment.session(task=task) as session:
        seen["is_final"] = await session.is_assistant_message_final()
        said = await session.call_terminal_tool("I give up.")
        seen["said"] = [said.reward, said.finished, len(said.blocks)]
    async with environment.session(task=task) as session:
        try:
            await session.call_tool("hit")
        except ToolFailed as error:
            seen["failed"] = str(error)
        try:
            await session.call_tool("dial", {"digit": 4})
        except SessionTerminatedError:
            seen["terminated"] = True

    async def one(index):
        async with environment.session(split="train", index=index % 3) as session:
            rewards = []
            for digit in (0, index % 3 + 1):
                rewards.append((await session.call_tool("dial", {"digit": digit})).reward)
            return sum(rewards)

    seen["many"] = await asyncio.gather(*(one(index) for index in range(60)))


synchronous()
asyncio.run(asynchronous())
print(json.dumps(seen))
