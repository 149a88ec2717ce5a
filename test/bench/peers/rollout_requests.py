"""What the programs that measure rollouts share: requests, the concurrency limit and the clock."""

import asyncio
import json
import sys
import time
from typing import Any, Awaitable, Callable

QUESTION = "What is there to say about this?"

# Other things than answers are printed too.
_answers, sys.stdout = sys.stdout, sys.stderr


def look(place: str) -> str:
    """Looks at a place.

    Args:
        place: where to look
    """
    return f"nothing on the {place}"


async def _measure(run: Callable[[dict[str, Any]], Awaitable[int]], request: dict[str, Any]) -> dict[str, Any]:
    await run({**request, "rollouts": request["warmUp"]})
    begun = time.perf_counter()
    completed = await run(request)
    if completed != request["rollouts"]:
        raise RuntimeError(f"{completed} of {request['rollouts']} rollouts completed")
    return {"perSecond": completed / (time.perf_counter() - begun)}


async def serve(run: Callable[[dict[str, Any]], Awaitable[int]]) -> None:
    """Answers each line of input, a request such as {"baseUrl": "http://127.0.0.1:8000", "turns": 1, "inFlight": 1000,
    "rollouts": 2000, "warmUp": 500}, with the rate of `run`, which returns how many rollouts have completed."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        try:
            answer = await _measure(run, json.loads(line))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=_answers, flush=True)
