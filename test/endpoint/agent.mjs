// An agent of Node alone: a tool loop over chat completions.
const { OPENAI_BASE_URL, OPENAI_API_KEY } = process.env;
const tools = [{ type: 'function', function: { name: 'order', parameters: { type: 'object' } } }];

async function complete(messages) {
  const response = await fetch(`${OPENAI_BASE_URL}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${OPENAI_API_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'any', messages, tools }),
  });
  return (await response.json()).choices[0].message;
}

const messages = [{ role: 'user', content: 'order 12?' }];
for (;;) {
  const message = await complete(messages);
  messages.push(message);
  for (const call of message.tool_calls ?? []) {
    call.function.arguments = JSON.stringify(JSON.parse(call.function.arguments));
    messages.push({ role: 'tool', tool_call_id: call.id, content: 'paid' });
  }
  if (!message.tool_calls?.length) break;
}
console.log(messages.at(-1).content);
