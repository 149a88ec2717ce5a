import { generateText, jsonSchema, type ModelMessage, pruneMessages, ToolLoopAgent, tool } from 'ai';
import { ModelHandle, type ModelSettings, Trajectory } from 'martingale';
import { runInTrajectory } from 'martingale/loop';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Message } from '../../src/contract/index.ts';
import { baseModel, type RealService, startRealService } from './real-service.ts';

const question: ModelMessage = { role: 'user', content: 'what is it' };
const look = tool({
  inputSchema: jsonSchema({ type: 'object', properties: { at: { enum: ['it', 'him'] } } }),
  execute: () => 'a cat',
});

describe('an agent that reasons', () => {
  let service: RealService;

  beforeAll(async () => {
    service = await startRealService();
  });

  afterAll(() => service?.close());

  const open = (settings: ModelSettings = {}) =>
    new ModelHandle({ client: service.client, name: baseModel, settings });
  const short = { reasoning: 'low', maxOutputTokens: 120 } as const;

  /** The messages of the trajectory's last call. */
  const lastSent = (trajectory: Trajectory): readonly Message[] => {
    const call = trajectory.log.get(1);
    if (!call) throw new RangeError('there was no second call');
    return call.messages;
  };

  test.each(['generate', 'stream'] as const)('keeps one history over all turns (%s)', async (how) => {
    const agent = new ToolLoopAgent({
      ...{ model: open().languageModel, tools: { look }, ...short },
      // The first turn calls, the second answers.
      prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? 'required' : 'none' }),
    });
    const trajectory = new Trajectory({ seed: 3 });
    const steps = await runInTrajectory(trajectory, async () => {
      if (how === 'generate') return (await agent.generate({ prompt: 'what is it' })).steps;
      const result = await agent.stream({ prompt: 'what is it' });
      return result.steps;
    });
    expect(steps.map(({ content }) => content.map(({ type }) => type))).toEqual([
      expect.arrayContaining(['reasoning', 'tool-call', 'tool-result']),
      ['reasoning', 'text'],
    ]);
    expect(trajectory.histories).toHaveLength(1);
    expect(trajectory.choices).toHaveLength(2);
    const sent = trajectory.histories[0]?.toBody().messages_and_choices ?? [];
    const [first, second] = sent.filter((entry) => 'message' in entry);
    expect(first?.message.reasoning).toBe(steps[0]?.reasoningText);
    const before = [...(first?.prompt_token_ids ?? []), ...(first?.token_ids ?? [])];
    expect(before.length).toBeGreaterThan(10);
    expect(second?.prompt_token_ids?.slice(0, before.length)).toEqual(before);
    expect(lastSent(trajectory)[1]).toMatchObject({
      ...{ reasoning_content: first?.message.reasoning, token_ids: first?.token_ids },
    });
  });

  async function twoTurns(
    trajectory: Trajectory,
    settings: ModelSettings,
    edit: (messages: ModelMessage[]) => ModelMessage[],
  ) {
    await runInTrajectory(trajectory, async () => {
      const { languageModel: model } = open(settings);
      const { response } = await generateText({ model, ...short, messages: [question] });
      const messages = edit([question, ...response.messages, { role: 'user', content: 'so?' }]);
      await generateText({ model, ...short, messages });
    });
  }

  test('continues from its text, with reasoning, if ids are not sent', async () => {
    const trajectory = new Trajectory();
    await twoTurns(trajectory, { sendTokenIds: false }, (messages) => messages);
    const [first] = trajectory.choices;
    expect(lastSent(trajectory)[1]).toMatchObject({
      ...{ role: 'assistant', reasoning_content: first?.message.reasoning, content: first?.message.content },
    });
    expect(lastSent(trajectory)[1]).not.toHaveProperty('token_ids');
  });

  test('begins a new history if the conversation omits its reasoning', async () => {
    const trajectory = new Trajectory();
    await twoTurns(trajectory, {}, (messages) => pruneMessages({ messages, reasoning: 'all' }));
    expect(trajectory.histories).toHaveLength(2);
    expect(lastSent(trajectory)[1]).toEqual({
      ...{ role: 'assistant', content: trajectory.choices[0]?.message.content },
    });
  });

  test('may hide its reasoning, which stays in its history', async () => {
    const trajectory = new Trajectory();
    const providerOptions = { martingale: { include_reasoning: false } };
    await runInTrajectory(trajectory, async () => {
      const call = { ...short, model: open().languageModel, providerOptions };
      const { response, reasoning } = await generateText({ ...call, messages: [question] });
      expect(reasoning).toEqual([]);
      await generateText({
        ...call,
        messages: [question, ...response.messages, { role: 'user', content: 'so?' }],
      });
    });
    expect(trajectory.histories).toHaveLength(1);
    expect(trajectory.choices).toHaveLength(2);
  });

  test('sends reasoning that it did not sample unchanged', async () => {
    const trajectory = new Trajectory();
    const reasoned: ModelMessage = {
      role: 'assistant',
      content: [
        { type: 'reasoning', text: 'it is ' },
        { type: 'reasoning', text: 'warm' },
        { type: 'text', text: 'a cat' },
      ],
    };
    const messages = [question, reasoned, question];
    await runInTrajectory(trajectory, () =>
      generateText({ model: open().languageModel, messages, maxOutputTokens: 4 }),
    );
    expect(trajectory.histories[0]?.entries[1]).toEqual({
      ...{ role: 'assistant', reasoning_content: 'it is warm', content: 'a cat' },
    });
    const prompt = trajectory.choices[0]?.prompt_token_ids;
    const { reasoning } = service.engine.chatFormat(baseModel);
    expect(prompt).toEqual(expect.arrayContaining([reasoning?.tokens?.open, reasoning?.tokens?.close]));
  });
});
