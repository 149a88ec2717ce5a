"""An agent that knows an address and a key: python3 agent.py red"""

import json
import os
import sys
import urllib.request

schema = {
    "type": "object",
    "properties": {"word": {"type": "string", "enum": ["stop", "slow", "go"]}},
    "required": ["word"],
    "additionalProperties": False,
}
body = {
    "model": "policy",
    "messages": [{"role": "user", "content": f"the light is {sys.argv[1]}"}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}},
}
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"].rstrip("/") + "/chat/completions",
    data=json.dumps(body).encode(),
    headers={"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
)
with urllib.request.urlopen(request) as response:
    reply = json.load(response)
print(json.loads(reply["choices"][0]["message"]["content"])["word"])
