"""Two environments of the Open Reward Standard, served by the package `openreward`: lights.py PORT."""

import os
import signal
import sys
import time
from typing import Literal

from openreward.environments import Environment, ImageBlock, Server, Split, TextBlock, ToolOutput, terminal, tool
from pydantic import BaseModel

rules = [("red", "stop"), ("amber", "slow"), ("green", "go")]


class Word(BaseModel):
    word: Literal["stop", "slow", "go"]


class Text(BaseModel):
    text: str


class Lights(Environment):
    @classmethod
    def list_splits(cls):
        return [Split(name="train", type="train"), Split(name="test", type="test")]

    @classmethod
    def list_tasks(cls, split):
        return [{"light": light, "word": word} for light, word in rules]

    def get_prompt(self):
        return [TextBlock(text=f"the light is {self.task_spec['light']}")]

    @tool
    async def answer(self, params: Word) -> ToolOutput:
        """Say what to do."""
        is_right = params.word == self.task_spec["word"]
        return ToolOutput(blocks=[TextBlock(text="ok")], reward=float(is_right), finished=True)


class Echo(Lights):
    """For one rollout each: a slow call, an image, an error, an end by text, the death of the server."""

    def get_prompt(self):
        return [TextBlock(text="begin")]

    @tool
    async def wait(self, params: Text) -> ToolOutput:
        """Takes longer than the server's pause between pings."""
        import asyncio

        await asyncio.sleep(float(params.text))
        return ToolOutput(blocks=[TextBlock(text="waited")], reward=0.5)

    @tool
    async def picture(self) -> ToolOutput:
        """A dot."""
        return ToolOutput(blocks=[TextBlock(text="see"), ImageBlock(data="iVBORw0KGgo=", mimeType="image/png")])

    @tool
    async def fail(self) -> ToolOutput:
        """Fails."""
        raise ValueError("the shelf is empty")

    @tool
    async def die(self) -> ToolOutput:
        """Kills the server."""
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(10)

    @terminal
    @tool
    async def submit(self, params: Text) -> ToolOutput:
        """The end."""
        return ToolOutput(blocks=[TextBlock(text="bye")], reward=len(params.text) / 10, finished=True)


Server([Lights, Echo]).run(host="127.0.0.1", port=int(sys.argv[1]))
