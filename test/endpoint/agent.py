"""An agent of the standard library alone: a tool loop over chat completions."""
import json
import os
import urllib.request

TOOLS = [{"type": "function", "function": {"name": "order", "parameters": {"type": "object"}}}]


def complete(messages):
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        data=json.dumps({"model": "any", "messages": messages, "tools": TOOLS}).encode(),
        headers={
            "authorization": "Bearer " + os.environ["OPENAI_API_KEY"],
            "content-type": "application/json",
        },
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]


messages = [{"role": "user", "content": "order 12?"}]
while True:
    message = complete(messages)
    calls = message.get("tool_calls") or []
    for call in calls:
        # Read and written again, as a typed client would.
        call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]))
    messages.append(message)
    if not calls:
        break
    for call in calls:
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": "paid"})
print(message["content"])
