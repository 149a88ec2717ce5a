import { request } from 'node:http';
import { join } from 'node:path';
import { generateText, isStepCount, streamText, ToolLoopAgent, tool } from 'ai';
import OpenAI from 'openai';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import {
  type AlarmKind,
  defineEnvironment,
  type RolloutContext,
  runOutsideTrajectory,
  traceTools,
} from '../../../src/index.ts';
import { fromGroupRecord, readRun } from '../../../src/records.ts';
import { rolloutFigures } from '../../../src/training/step-report.ts';
import type { FakePolicy } from '../../model/fake-service.ts';
import { temporaryFolder } from '../../support/files.ts';
import { startServer } from '../../support/http-server.ts';
import { realRun } from './real-run.ts';

type Context = RolloutContext<Record<string, never>, undefined>;

const scenarios = [{}, {}];
const rewards = { quality: ({ outcome }: { outcome: string }) => Number(outcome) % 7 };
const sampled: FakePolicy = ({ seed }) => ({ text: String(seed) });

const environmentOf = (rollout: (context: Context) => Promise<string>) =>
  defineEnvironment({
    name: 'agent',
    scenario: z.object({}),
    onUnansweredCall: 'warn',
    rollout,
    rewards,
  });

/** Runs one step with six rollouts of an agent. */
async function stepOf(rollout: (context: Context) => Promise<string>, policy = sampled) {
  const environment = environmentOf(rollout);
  const { reports, alarms } = await realRun({ environment, scenarios, policy, steps: 1 });
  const [report] = reports;
  if (!report) throw new TypeError('There is no report.');
  const alarmOf = (kind: AlarmKind) => alarms.find((alarm) => alarm.kind === kind);
  return { report, alarms, alarmOf };
}

const ask = async ({ model }: Pick<Context, 'model'>, prompt = 'a') =>
  (await generateText({ model: model.languageModel, prompt })).text;

describe('failing tools are counted by name', () => {
  const broken = tool({
    inputSchema: z.object({ query: z.string() }),
    execute: (): string => {
      throw new Error('The index is gone.');
    },
  });
  const working = tool({ inputSchema: z.object({}), execute: () => 'noon' });
  const tools = { search: broken, clock: working };
  /** Four calls of `search`, one of `clock`, one with invalid input, one of an unknown tool; then an answer. */
  const policy: FakePolicy = ({ messages, seed }) => {
    if (messages.some(({ role }) => role === 'tool')) return { text: String(seed) };
    const search = { name: 'search', arguments: '{"query":"a"}' };
    const others = [
      { name: 'clock', arguments: '{}' },
      { name: 'search', arguments: '{"question":"a"}' },
      { name: 'made_up', arguments: '{}' },
    ];
    return { toolCalls: [search, search, search, search, ...others] };
  };
  const counts = {
    '(unknown)': { uses: 6, errors: 0, invalid: 6 },
    clock: { uses: 6, errors: 0, invalid: 0 },
    search: { uses: 30, errors: 24, invalid: 6, error: 'The index is gone.' },
  };
  const message = 'Tools failed over the last step: "search" in 24 of 24 uses (The index is gone.).';

  test.each([
    ['plain', tools],
    ['traced', traceTools(tools)],
  ])('in an agent of the AI SDK with %s tools', async (_, tools) => {
    const { report, alarms } = await stepOf(async ({ model }) => {
      const agent = new ToolLoopAgent({ model: model.languageModel, tools, stopWhen: isStepCount(4) });
      return (await agent.generate({ prompt: 'a' })).text;
    }, policy);
    expect(report.tools).toEqual(counts);
    expect(alarms).toMatchObject([{ kind: 'tool_errors', step: 0, message }]);
  });

  test('in an environment built from pieces, also in its last turn', async () => {
    const environment = defineEnvironment({
      name: 'pieces',
      scenario: z.object({}),
      prompt: () => 'a',
      tools,
      stop: ({ reply }) => (reply.toolCalls.length > 0 ? 'enough' : false),
      rewards: { quality: ({ trajectory }) => trajectory.seed % 7 },
    });
    const { reports, alarms } = await realRun({ environment, scenarios, policy, steps: 1 });
    expect(reports[0]?.tools.search).toMatchObject({ errors: 24 });
    expect(alarms).toMatchObject([{ kind: 'tool_errors', message }]);
  });

  test('with results of MCP servers that report a failure', async () => {
    const failing = tool({
      inputSchema: z.object({ query: z.string() }),
      execute: async () => ({ content: [{ type: 'text', text: 'away' }], isError: true }),
    });
    const { report } = await stepOf(async ({ model }) => {
      const tools = traceTools({ search: failing });
      const agent = new ToolLoopAgent({ model: model.languageModel, tools, stopWhen: isStepCount(4) });
      return (await agent.generate({ prompt: 'a' })).text;
    }, policy);
    expect(report.tools.search).toEqual({ uses: 30, errors: 24, invalid: 6, error: 'away' });
  });

  test('and not in a prompt that was not sampled', async () => {
    const { report } = await stepOf(async ({ model }) => {
      const output = { type: 'error-text', value: 'away' } as const;
      const call = { toolCallId: 'x', toolName: 'search' };
      const { text } = await generateText({
        model: model.languageModel,
        messages: [
          { role: 'user', content: 'a' },
          { role: 'assistant', content: [{ type: 'tool-call', ...call, input: {} }] },
          { role: 'tool', content: [{ type: 'tool-result', ...call, output }] },
        ],
      });
      return text;
    });
    expect(report.tools).toEqual({});
  });
});

describe('the end of the context', () => {
  const overflow = {
    message: expect.stringMatching(/^100% of the rollouts \(6 of 6\) exceeded the model's context/),
  };

  test('is reported for replies cut without their own limit', async () => {
    const cut: FakePolicy = ({ seed }) => ({ text: String(seed), finishReason: 'length' });
    const { report, alarmOf } = await stepOf((context) => ask(context), cut);
    expect(report.contextOverflows).toBe(6);
    expect(alarmOf('context_overflow')).toMatchObject(overflow);
  });

  test('is reported for prompts that are too long, also if the agent continues', async () => {
    const policy: FakePolicy = ({ messages, seed }) =>
      JSON.stringify(messages[0]).includes('long')
        ? { refusal: { status: 400, body: { error: { message: 'x', code: 'context_length_exceeded' } } } }
        : { text: String(seed) };
    const { report, alarmOf } = await stepOf(async (context) => {
      await ask(context, 'long').catch(() => '');
      return ask(context);
    }, policy);
    expect(report).toMatchObject({ completed: 6, contextOverflows: 6 });
    expect(alarmOf('context_overflow')).toMatchObject(overflow);
  });

  test('is not reported for replies cut by a limit of the agent', async () => {
    const cut: FakePolicy = ({ seed }) => ({ text: String(seed), finishReason: 'length' });
    const { report, alarms } = await stepOf(async ({ model }) => {
      const { text } = await generateText({ model: model.languageModel, prompt: 'a', maxOutputTokens: 2 });
      return text;
    }, cut);
    expect(report.contextOverflows).toBe(0);
    expect(alarms).toEqual([]);
  });
});

describe('calls that the agent does not await', () => {
  test('are reported if others were answered', async () => {
    const { report, alarms } = await stepOf(async (context) => {
      const text = await ask(context);
      void ask(context, 'b').catch(() => undefined);
      return text;
    });
    expect(report).toMatchObject({ completed: 6, callsInFlight: 6 });
    expect(alarms).toMatchObject([
      {
        kind: 'calls_in_flight',
        message: expect.stringMatching(
          /^In 100% of the rollouts \(6 of 6\) the agent returned while model calls/,
        ),
        lookAt: expect.stringContaining('`await`'),
      },
    ]);
  });

  test('are the reason if no other call was answered', async () => {
    const failed = await realRun({
      environment: environmentOf(async (context) => {
        void ask(context).catch(() => undefined);
        return '1';
      }),
      ...{ scenarios, policy: sampled, steps: 1 },
    }).catch((error: unknown) => String(error));
    expect(failed).toContain('calls_in_flight');
    expect(failed).toMatch(/returned while its call to "[^"]+" had no answer yet.* Await every call/s);
  });

  test('do not include awaited, failed, or streamed and read calls', async () => {
    const { report, alarms } = await stepOf(
      async (context) => {
        const { model } = context;
        await Promise.all([ask(context), ask(context, 'b'), ask(context, 'fails').catch(() => '')]);
        let text = '';
        for await (const part of streamText({ model: model.languageModel, prompt: 'c' }).textStream)
          text += part;
        return text;
      },
      ({ messages, seed }) =>
        JSON.stringify(messages).includes('fails')
          ? { refusal: { status: 400, body: { detail: 'no' } } }
          : { text: String(seed) },
    );
    expect(report.callsInFlight).toBe(0);
    expect(alarms).toEqual([]);
  });

  test('do not include calls that the agent has cancelled', async () => {
    const { report, alarms } = await stepOf(
      async ({ model }) => {
        const dropped = new AbortController();
        const prompts = ['a', 'slow'].map((prompt) =>
          generateText({ model: model.languageModel, prompt, abortSignal: dropped.signal }),
        );
        for (const call of prompts) call.catch(() => undefined);
        const { text } = await Promise.race(prompts);
        dropped.abort();
        return text;
      },
      async ({ messages, seed }) => {
        if (JSON.stringify(messages).includes('slow')) await new Promise<never>(() => undefined);
        return { text: String(seed) };
      },
    );
    expect(report).toMatchObject({ completed: 6, callsInFlight: 0 });
    expect(alarms).toEqual([]);
  });
});

describe('calls of other models', () => {
  const answer = JSON.stringify({
    id: 'x',
    object: 'chat.completion',
    created: 0,
    model: 'gpt-x',
    choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: '1' } }],
  });
  let host = '';
  beforeAll(async () => {
    const elsewhere = await startServer((_, response) => {
      response.setHeader('content-type', 'application/json').end(answer);
    });
    host = `127.0.0.1:${elsewhere.port}`;
    return elsewhere.close;
  });

  const gpt = () => new OpenAI({ baseURL: `http://${host}/v1`, apiKey: 'theirs' });
  const askGpt = () =>
    gpt().chat.completions.create({ model: 'gpt-x', messages: [{ role: 'user', content: 'a' }] });
  const askByNode = () =>
    new Promise<void>((resolve, reject) => {
      const sent = request(`http://${host}/v1/messages?beta=true`, { method: 'POST' }, (response) => {
        response.resume().on('end', resolve);
      });
      sent.on('error', reject).end('{}');
    });

  test('by fetch and by node:http are counted by host and path', async () => {
    const { report, alarms } = await stepOf(async (context) => {
      await askGpt();
      await askByNode();
      await fetch(`http://${host}/search`, { method: 'POST' });
      await fetch(`http://${host}/v1/chat/completions`);
      return ask(context);
    });
    expect(report.otherModels).toEqual({ [`${host}/v1/chat/completions`]: 6, [`${host}/v1/messages`]: 6 });
    expect(alarms).toMatchObject([
      { kind: 'other_models', step: 0, message: expect.stringContaining(`${host}/v1/messages (6)`) },
    ]);
  });

  test('are the reason if the policy was not called', async () => {
    const failed = await realRun({
      environment: environmentOf(async () => String((await askGpt()).choices.length)),
      ...{ scenarios, policy: sampled, steps: 1 },
    }).catch((error: unknown) => String(error));
    expect(failed).toContain(`Its requests went to ${host}/v1/chat/completions.`);
  });

  test('of the environment, of rewards and of the policy are not counted', async () => {
    const environment = defineEnvironment({
      name: 'intended',
      scenario: z.object({}),
      setup: async () => void (await askGpt()),
      rollout: async (context) => {
        const { model } = context;
        await runOutsideTrajectory(askGpt);
        const { baseUrl, apiKey } = await model.endpoint();
        const client = new OpenAI({ baseURL: baseUrl, apiKey });
        await client.chat.completions.create({ model: 'any', messages: [{ role: 'user', content: 'b' }] });
        return ask(context);
      },
      rewards: {
        quality: async ({ outcome }) => {
          await askGpt();
          return Number(outcome) % 7;
        },
      },
    });
    const { reports, alarms } = await realRun({ environment, scenarios, policy: sampled, steps: 1 });
    expect(reports[0]?.otherModels).toEqual({});
    expect(alarms).toEqual([]);
  });

  test('observations of rollouts are on disk, so that a resumed step has the same figures', async () => {
    const search = tool({
      inputSchema: z.object({}),
      execute: (): string => {
        throw new Error('away');
      },
    });
    const environment = environmentOf(async (context) => {
      const { model } = context;
      await generateText({ model: model.languageModel, prompt: 'a', temperature: 0, seed: 1 });
      await askGpt();
      const agent = new ToolLoopAgent({
        ...{ model: model.languageModel, tools: { search }, stopWhen: isStepCount(2) },
      });
      const { text } = await agent.generate({ prompt: 'b' });
      void ask(context, 'c').catch(() => undefined);
      return text;
    });
    const policy: FakePolicy = ({ messages, seed }) =>
      messages.some(({ role }) => role === 'tool')
        ? { text: String(seed), finishReason: 'length' }
        : { toolCalls: [{ name: 'search', arguments: '{}' }] };
    const runDirectory = join(await temporaryFolder(), 'run');
    const { reports } = await realRun({ environment, scenarios, policy, steps: 1, runDirectory });
    expect(reports[0]).toMatchObject({
      callsInFlight: 6,
      contextOverflows: 6,
      tools: { search: { uses: 6, errors: 6, invalid: 0 } },
      otherModels: { [`${host}/v1/chat/completions`]: 6 },
    });
    const groups = [];
    for await (const record of (await readRun(runDirectory)).groups(0)) groups.push(fromGroupRecord(record));
    expect(reports[0]).toMatchObject(rolloutFigures(groups));
  });
});
