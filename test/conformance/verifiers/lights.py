"""An environment of verifiers: what to do at a light, with a tool that waits."""

import verifiers as vf
from datasets import Dataset

rules = {"red": "stop", "amber": "slow", "green": "go"}


async def wait(seconds: int) -> str:
    """Waits at the light.

    Args:
        seconds: How long.
    """
    return f"{seconds} s later nothing has changed"


def right(completion, answer, **_):
    return float(completion[-1]["content"] == answer)


def load_environment():
    rows = [{"question": f"the light is {light}", "answer": word} for light, word in rules.items()]
    return vf.ToolEnv(tools=[wait], max_turns=3, dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[right]))
