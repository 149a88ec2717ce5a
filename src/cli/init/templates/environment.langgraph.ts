import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import { ChatOpenAI } from '@langchain/openai';
import { defineEnvironment } from 'martingale';
import { z } from 'zod';

const schema = {
  type: 'object',
  properties: { word: { type: 'string', enum: ['stop', 'slow', 'go'] } },
  required: ['word'],
  additionalProperties: false,
};

/** Your graph. Nothing in it knows about training. */
const graphOf = (model: ChatOpenAI) =>
  new StateGraph(MessagesAnnotation)
    .addNode('decide', async ({ messages }) => ({
      messages: [
        await model.invoke(messages, {
          response_format: { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema } },
        }),
      ],
    }))
    .addEdge(START, 'decide')
    .addEdge('decide', END)
    .compile();

const rule = { red: 'stop', amber: 'slow', green: 'go' };

export default defineEnvironment({
  name: 'crossing',
  scenario: z.object({ light: z.enum(['red', 'amber', 'green']) }),
  rollout: async ({ scenario, model, signal }) => {
    // The key tells martingale which rollout a call belongs to.
    const { baseUrl, apiKey } = await model.endpoint();
    const configuration = { baseURL: baseUrl };
    // LangChain would send a call whose reply it cannot read again, six times with longer and longer pauses.
    const graph = graphOf(new ChatOpenAI({ model: 'policy', apiKey, configuration, maxRetries: 0 }));
    const input = { messages: [{ role: 'user', content: `the light is ${scenario.light}` }] };
    const { messages } = await graph.invoke(input, { signal });
    return JSON.parse(messages.at(-1)?.text ?? '{}').word;
  },
  rewards: { success: ({ scenario, outcome }) => Number(outcome === rule[scenario.light]) },
});

export const scenarios = [{ light: 'red' }, { light: 'amber' }, { light: 'green' }] as const;
