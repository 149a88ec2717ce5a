"""Uses the client that openapi-python-client generates; prints what it saw as JSON."""

import json
import sys
import time

url, key, base_model, folder = sys.argv[1:]
sys.path.insert(0, folder)

from martingale_service import AuthenticatedClient, models as m  # noqa: E402
from martingale_service.api.inference import (  # noqa: E402
    get_v_models,
    get_v_models_model,
    post_v_chat_completions,
)
from martingale_service.api.models import (  # noqa: E402
    get_v_preview_models_model_id_checkpoints,
    post_v_preview_models,
)
from martingale_service.api.training import (  # noqa: E402
    get_v_preview_training_jobs_job_id_events,
    post_v_preview_sft_training_jobs,
    post_v_preview_uploads,
)

client = AuthenticatedClient(base_url=url, token=key, raise_on_unexpected_status=True)
seen = {"models": [model.id for model in get_v_models.sync(client=client).data]}
question = m.UserMessage(role="user", content="where is order 6662")


def chat(**fields):
    body = m.ChatCompletionRequest(messages=[question], model=base_model, seed=1, **fields)
    return post_v_chat_completions.sync(client=client, body=body)


plain = chat(structured_outputs=m.StructuredOutputs(regex="it is (lost|here)"))
seen["plain"] = plain.choices[0].message.content
seen["finish_reason"] = plain.choices[0].finish_reason.value

schema = m.JsonSchemaResponseFormatJsonSchemaSchema.from_dict(
    {"type": "object", "properties": {"order": {"enum": ["6662"]}}, "required": ["order"]}
)
response_format = m.JsonSchemaResponseFormat(
    type_="json_schema",
    json_schema=m.JsonSchemaResponseFormatJsonSchema(name="order", schema=schema),
)
seen["json"] = json.loads(chat(response_format=response_format).choices[0].message.content)

parameters = m.ToolFunctionParameters.from_dict(
    {"type": "object", "properties": {"order": {"enum": ["6662"]}}, "required": ["order"]}
)
track = m.Tool(type_="function", function=m.ToolFunction(name="track", parameters=parameters))
choice = m.NamedToolChoice(type_="function", function=m.NamedToolChoiceFunction(name="track"))
[call] = chat(tools=[track], tool_choice=choice).choices[0].message.tool_calls
seen["call"] = [call.function.name, json.loads(call.function.arguments)]
answered = [
    question,
    m.AssistantMessage(role="assistant", tool_calls=[call]),
    m.ToolMessage(role="tool", tool_call_id=call.id, content="on its way"),
    m.UserMessage(role="user", content=[m.TextPart(type_="text", text="and now?")]),
]
second = post_v_chat_completions.sync(
    client=client,
    body=m.ChatCompletionRequest(
        messages=answered,
        model=base_model,
        tools=[track],
        tool_choice=m.ToolChoiceMode.NONE,
        structured_outputs=m.StructuredOutputs(choice=["soon"]),
    ),
)
seen["second"] = second.choices[0].message.content

streamed = m.ChatCompletionRequest(
    messages=[question],
    model=base_model,
    stream=True,
    structured_outputs=m.StructuredOutputs(regex="it is here, in a stream"),
)
text = ""
with client.get_httpx_client().stream(
    "POST", "/v1/chat/completions", json=streamed.to_dict()
) as response:
    for line in response.iter_lines():
        if line.startswith("data: ") and line != "data: [DONE]":
            chunk = m.ChatCompletionChunk.from_dict(json.loads(line[len("data: ") :]))
            for part in chunk.choices:
                text += part.delta.content or ""
seen["streamed"] = text

refused = post_v_chat_completions.sync_detailed(
    client=client, body=m.ChatCompletionRequest(messages=[question, m.UserMessage("user", 5)])
)
seen["refused"] = {
    "status": int(refused.status_code),
    "locations": [issue.loc for issue in refused.parsed.detail],
    "code": refused.parsed.error.code,
}
unknown = get_v_models_model.sync_detailed("local/desk/nobody", client=client)
seen["unknown"] = [int(unknown.status_code), unknown.parsed.error.code]

model = post_v_preview_models.sync(
    client=client, body=m.CreateModelRequest(project="generated", base_model=base_model)
)
name = f"{model.entity}/{model.project}/{model.name}"
seen["retrieved"] = get_v_models_model.sync(f"{name}:step0", client=client).id == f"{name}:step0"
example = m.SftExample(messages=[question, m.AssistantMessage("assistant", "it is here")])
upload = post_v_preview_uploads.sync(client=client, body=example)
job = post_v_preview_sft_training_jobs.sync(
    client=client,
    body=m.CreateSftTrainingJobRequest(model_id=model.id, training_data_url=upload.url),
)
events = []
deadline = time.monotonic() + 60
while not events or not isinstance(events[-1], (m.TrainingEndedEvent, m.TrainingFailedEvent)):
    if time.monotonic() > deadline:
        raise TimeoutError(f"the job has not ended: {events}")
    after = str(events[-1].id) if events else ""
    page = get_v_preview_training_jobs_job_id_events.sync(job.id, client=client, after=after)
    events += page.data
    if not page.data:
        time.sleep(0.1)
seen["events"] = [type(event).__name__ for event in events]
seen["loss"] = events[1].data["loss"]
checkpoints = get_v_preview_models_model_id_checkpoints.sync(model.id, client=client)
seen["steps"] = [checkpoint.step for checkpoint in checkpoints.data]
print(json.dumps(seen))
