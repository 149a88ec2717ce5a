import { HumanMessage, SystemMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import { ToolNode } from '@langchain/langgraph/prebuilt';
import { ChatOpenAI } from '@langchain/openai';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { expectExact, openDesk, openRollout, twoTurns } from './support.ts';

const order = tool(({ order: number }) => `order ${number} is paid`, {
  name: 'order',
  description: 'Look up an order',
  schema: z.object({ order: z.number() }),
});

/** The graph of a ReAct agent: the model, its tools, and back while it calls any. */
function reactGraph(llm: ChatOpenAI) {
  const withTools = llm.bindTools([order]);
  return new StateGraph(MessagesAnnotation)
    .addNode('model', async ({ messages }) => ({
      messages: [await withTools.invoke([new SystemMessage('You help.'), ...messages])],
    }))
    .addNode('tools', new ToolNode([order]))
    .addEdge(START, 'model')
    .addConditionalEdges('model', ({ messages }) => {
      const last = messages.at(-1);
      return last && 'tool_calls' in last && Array.isArray(last.tool_calls) && last.tool_calls.length > 0
        ? 'tools'
        : END;
    })
    .addEdge('tools', 'model')
    .compile();
}

test.each([
  { useResponsesApi: false, stream: false },
  { useResponsesApi: false, stream: true },
  { useResponsesApi: true, stream: false },
  { useResponsesApi: true, stream: true },
])('a LangGraph ReAct graph is one history of what was sampled: %o', async ({ useResponsesApi, stream }) => {
  await using desk = await openDesk(twoTurns);
  const { trajectory, endpoint } = openRollout();
  const { baseUrl, apiKey } = await endpoint(desk.model);
  const configuration = { baseURL: baseUrl };
  const graph = reactGraph(new ChatOpenAI({ model: 'policy', apiKey, configuration, useResponsesApi }));
  const input = { messages: [new HumanMessage('order 12?')] };
  let said = '';
  if (stream) {
    for await (const [message] of await graph.stream(input, { streamMode: 'messages' }))
      if (message.type === 'ai') said += message.text;
  } else said = (await graph.invoke(input)).messages.at(-1)?.text ?? '';
  expect(said).toBe('it is paid');
  expect(desk.service.requests.map((request) => request.stream === true)).toEqual([stream, stream]);
  expect(trajectory.histories).toHaveLength(1);
  expect(trajectory.choices).toHaveLength(2);
  expectExact(trajectory, desk.service.requests);
});
