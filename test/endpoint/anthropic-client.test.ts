import Anthropic from '@anthropic-ai/sdk';
import { expect, test } from 'vitest';
import { expectExact, name, openDesk, openRollout, orderParameters, twoTurns } from './support.ts';

type Params = Anthropic.MessageCreateParamsNonStreaming;

const tool = {
  name: 'order',
  description: 'Look up an order',
  input_schema: { ...orderParameters, required: ['order'] },
};

async function openClient(model: Awaited<ReturnType<typeof openDesk>>['model']) {
  const rollout = openRollout();
  const { baseUrl, apiKey } = await rollout.endpoint(model);
  return { ...rollout, baseUrl, client: new Anthropic({ baseURL: baseUrl, apiKey, authToken: null }) };
}

const ask = (client: Anthropic, params: Params, stream: boolean) =>
  stream ? client.messages.stream(params).finalMessage() : client.messages.create(params);

test.each([false, true])(
  'an agent on messages is recorded as one history of what was sampled (streamed: %s)',
  async (stream) => {
    await using desk = await openDesk(twoTurns);
    const { client, trajectory, end } = await openClient(desk.model);
    const messages: Anthropic.MessageParam[] = [{ role: 'user', content: 'order 12?' }];
    for (let turn = 0; turn < 2; turn++) {
      const reply = await ask(
        client,
        { model: 'claude', max_tokens: 100, system: 'You help.', messages, tools: [tool] },
        stream,
      );
      expect(reply).toMatchObject({ model: name, role: 'assistant', type: 'message' });
      expect(reply.usage.output_tokens).toBeGreaterThan(0);
      messages.push({ role: 'assistant', content: reply.content });
      const results = reply.content.flatMap((block) =>
        block.type === 'tool_use'
          ? [
              {
                type: 'tool_result' as const,
                tool_use_id: block.id,
                content: `paid ${JSON.stringify(block.input)}`,
              },
            ]
          : [],
      );
      expect(reply.stop_reason).toBe(turn === 0 ? 'tool_use' : 'end_turn');
      if (results.length > 0) messages.push({ role: 'user', content: results });
    }
    end();
    expect(messages.at(-1)?.content).toEqual([{ type: 'text', text: 'it is paid', citations: null }]);
    expect(desk.service.requests[1]?.messages.at(-1)).toMatchObject({
      role: 'tool',
      content: 'paid {"order":12}',
    });
    expect(trajectory.histories).toHaveLength(1);
    expectExact(trajectory, desk.service.requests);
    expect(trajectory.choices[0]?.message.tool_calls?.[0]?.function.arguments).toBe('{ "order" :  12.0 }');
  },
);
