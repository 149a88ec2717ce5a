"""Environments of OpenEnv, served by the package `openenv`: worlds.py NAME PORT CAPACITY."""

import sys
from typing import Literal

import uvicorn
from openenv.core.env_server import Environment, create_fastapi_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State

rules = [("red", "stop"), ("amber", "slow"), ("green", "go")]


class Word(Action):
    word: str


class Seen(Observation):
    text: str = ""


class Lights(Environment):
    """Say what to do at a light."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self.rule = rules[0]

    def reset(self, seed=None, episode_id=None, **kwargs):
        if seed == 99:
            raise RuntimeError("there is no such street")
        self.rule = rules[(seed or 0) % len(rules)]
        return Seen(text=f"the light is {self.rule[0]}")

    def step(self, action, timeout_s=None, **kwargs):
        if action.word == "crash":
            raise RuntimeError("the car broke down")
        return Seen(text="over", reward=float(action.word == self.rule[1]), done=True)

    @property
    def state(self):
        return State()


class Tasks(Lights):
    """Lights as tasks: which light it is, the split and the index say, and the seed does not."""

    def list_splits(self):
        return ["train", {"name": "by night", "type": "test"}]

    async def num_tasks(self, split):
        return {"train": 3, "by night": 2}[split]

    def reset(self, seed=None, episode_id=None, split="train", index=0):
        self.rule = rules[(index + (1 if split == "by night" else 0)) % len(rules)]
        return Seen(text=f"{split}, {index}: the light is {self.rule[0]}")


class Game(Environment):
    """TextArena: guess a number from 1 to 20; the game says whether it is higher or lower."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, **kwargs):
        import textarena

        self.game = textarena.make("GuessTheNumber-v0-raw")
        self.game.reset(num_players=1, seed=seed)
        return Seen(text=self.said())

    def step(self, action, timeout_s=None, **kwargs):
        done, _ = self.game.step(action.word)
        if not done:
            return Seen(text=self.said(), reward=None, done=False)
        rewards, _ = self.game.close()
        return Seen(text="over", reward=max(0.0, float(rewards[0])), done=True)

    def said(self):
        return self.game.get_observation()[1][-1][1]

    @property
    def state(self):
        return State()


def tools_server():
    from fastmcp import FastMCP

    server = FastMCP("lights")

    class Tools(MCPEnvironment):
        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self):
            super().__init__(server)

            @self.tool()
            def answer(word: Literal["stop", "slow", "go"]) -> str:
                """Say stop, slow or go."""
                return f"you said {word}"

        def get_metadata(self):
            return EnvironmentMetadata(name="Tools", description="You stand at a light: say what to do.")

        def reset(self, seed=None, episode_id=None, **kwargs):
            return Observation(reward=None, done=False)

        async def step_async(self, action, timeout_s=None, **kwargs):
            seen = await super().step_async(action, timeout_s=timeout_s, **kwargs)
            if getattr(action, "tool_name", None) == "answer":
                seen.reward = float(action.arguments.get("word") == "go")
                seen.done = True
            return seen

        def _step_impl(self, action, timeout_s=None, **kwargs):
            return Observation(reward=None, done=False)

        @property
        def state(self):
            return State()

    return Tools


name, port, capacity = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
worlds = {"lights": Lights, "tasks": Tasks, "game": Game}
if name in worlds:
    title = "city lights" if name == "tasks" else None
    app = create_fastapi_app(worlds[name], Word, Seen, max_concurrent_envs=capacity, env_name=title)
else:
    from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation

    app = create_fastapi_app(tools_server(), CallToolAction, CallToolObservation, max_concurrent_envs=capacity)
uvicorn.run(app, port=port, log_level="error")
