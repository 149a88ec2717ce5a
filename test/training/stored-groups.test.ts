import { readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { gunzip } from 'node:zlib';
import { generateText, type ModelMessage } from 'ai';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { z } from 'zod';
import type { GenerateRequest } from '../../src/engines/engine.ts';
import { createClient, defineEnvironment, train } from '../../src/index.ts';
import { startService } from '../../src/service/index.ts';
import type { Trajectory } from '../../src/trajectory/index.ts';
import { FaultyProxy, pass } from '../faults/network/proxy.ts';
import { temporaryFolder } from '../support/files.ts';
import { startServer } from '../support/http-server.ts';
import { CoinEngine } from './resume/coin-engine.ts';
import { readRecord } from './resume/run-child.ts';

/** Tosses a coin once `before` has passed. */
const coins = (
  before: (id: number) => Promise<void> = async () => {},
  onReward: (trajectory: Trajectory) => void = () => {},
) =>
  defineEnvironment({
    name: 'coin toss',
    scenario: z.object({ id: z.number() }),
    rollout: async ({ scenario: { id }, model }) => {
      await before(id);
      const { text } = await generateText({ model: model.languageModel, prompt: `toss ${id}` });
      return text;
    },
    rewards: {
      success: ({ outcome, trajectory }) => {
        onReward(trajectory);
        return Number(outcome);
      },
    },
  });

const environment = coins();

/** Tosses three coins in one conversation. */
const threeCoins = defineEnvironment({
  name: 'coin tosses',
  scenario: z.object({ id: z.number() }),
  rollout: async ({ scenario: { id }, model }) => {
    const messages: ModelMessage[] = [];
    let tossed = '';
    for (const toss of [1, 2, 3]) {
      messages.push({ role: 'user', content: `toss ${id} ${toss}` });
      const { text, response } = await generateText({ model: model.languageModel, messages });
      messages.push(...response.messages);
      tossed += text;
    }
    return tossed;
  },
  rewards: { success: ({ outcome }) => Number(outcome.startsWith('1')) },
});

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

const settings = {
  environment,
  scenarios: [0, 1, 2, 3, 4].map((id) => ({ id })),
  validation: { scenarios: [{ id: 8 }, { id: 9 }], everySteps: 2 },
  steps: 4,
  ...{ groupsPerStep: 2, rolloutsPerGroup: 3, seed: 3, progress: false as const },
  ...{ model: { project: 'resume', name: 'one', baseModel: 'scripted-tiny' } },
};

/** Answers in place of the service. */
const answer =
  (status: number, body: object): typeof pass =>
  async ({ send }) => {
    const text = JSON.stringify(body);
    const head = `HTTP/1.1 ${status} -\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n`;
    await send(Buffer.from(head + text));
  };

const lists = { ChatCompletionRequest: { properties: { return_token_logprobs: {} } } };
const addedPrompts = { Choice: { properties: { added_prompt_token_ids: {} } } };

/**
 * A service whose requests are recorded, with a client. Its OpenAPI document does not name what it hides: single groups,
 * tokens as lists.
 */
async function serve({
  engine = new CoinEngine(),
  hidesGroups = false,
  hidesLists = false,
  hidesAdded = false,
} = {}) {
  const dataFolder = await temporaryFolder();
  const service = await startService({ engine, dataFolder, log: () => undefined });
  onTestFinished(() => service.close());
  const proxy = await FaultyProxy.start(service.url);
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  const components = { schemas: { ...(hidesLists ? {} : lists), ...(hidesAdded ? {} : addedPrompts) } };
  const paths = hidesGroups ? {} : { '/v1/preview/models/{model_id}/groups': {} };
  if (hidesGroups || hidesLists || hidesAdded)
    proxy.fault = ({ path }) =>
      path.endsWith('/openapi.json') ? answer(200, { openapi: '3.1.0', paths, components }) : pass;
  const client = createClient({ baseUrl: proxy.url, apiKey: service.apiKey, backoffMs: 1 });
  onTestFinished(() => client.close());
  const asked = (path: RegExp) => proxy.seen.filter((request) => path.test(request.path)).length;
  const logged = async (modelId = '', split = 'train') => {
    const log = await readFile(join(dataFolder, 'models', modelId, 'logs', `${split}.jsonl.gz`));
    return (await promisify(gunzip)(log)).toString().trim().split('\n').map(withoutTime);
  };
  return { engine, client, proxy, asked, logged };
}

/** A logged group without what depends on the clock, chance or the form in which it is sent. */
const withoutTime = (line: string): unknown =>
  JSON.parse(line, (key, value) => (/^(start_time|id|created|token_texts)$/.test(key) ? undefined : value));

async function trained(
  served: Awaited<ReturnType<typeof serve>>,
  more: Partial<typeof settings & { maxStaleness: number }> = {},
) {
  const { client, engine, logged } = served;
  const runDirectory = join(await temporaryFolder(), 'run');
  const { model, reason, counts, usage } = await train({ ...settings, ...more, client, runDirectory });
  return {
    model,
    runDirectory,
    facts: {
      ...{
        reason,
        counts,
        usage,
        record: await readRecord(runDirectory),
        trained: engine.trained.map(({ from, ...rest }) => ({
          ...rest,
          from: basename(from.folder ?? ''),
        })),
      },
      logs: [await logged(model.id), await logged(model.id, 'val')],
    },
  };
}

test('a client knows whether the service returns tokens as lists', async () => {
  expect(await (await serve()).client.returnsTokenLists()).toBe(true);
  expect(await (await serve({ hidesLists: true })).client.returnsTokenLists()).toBe(false);
});

test('a run with tokens as lists gives the same figures to the digit as one with an object a token', async () => {
  const [lists, objects] = [await trained(await serve()), await trained(await serve({ hidesLists: true }))];
  const facts = ({ reason, counts, usage, trained: datums }: typeof lists.facts) => ({
    ...{ reason, counts, usage, datums },
  });
  expect(facts(lists.facts)).toEqual(facts(objects.facts));
  const logs = [lists, objects].map((run) => JSON.stringify(run.facts.logs));
  expect(logs.map((log) => [log.includes('"token_logprobs":['), log.includes('"content":[{')])).toEqual([
    [true, false],
    [false, true],
  ]);
});

describe('a run on a service that stores groups', () => {
  test.each([0, 2])(
    'gives the same figures to the digit, with staleness %i, as on one that does not',
    async (maxStaleness) => {
      const [storing, whole] = [await serve(), await serve({ hidesGroups: true })];
      const [one, other] = [await trained(storing, { maxStaleness }), await trained(whole, { maxStaleness })];
      expect(one.facts.trained).toHaveLength(4);
      expect(one.facts).toEqual(other.facts);
      expect(storing.asked(/\/groups$/)).toBe(settings.steps * settings.groupsPerStep);
      // At the start: for groups, and for tokens as lists.
      expect(storing.asked(/openapi/)).toBe(2);
      expect(whole.asked(/\/groups$/)).toBe(0);
      const state = JSON.parse(await readFile(join(one.runDirectory, 'state.json'), 'utf8'));
      expect(state.storesGroups).toBe(true);
    },
  );

  test('sends of a conversation what each call adds, and trains on the same to the digit', async () => {
    const [storing, whole] = [await serve(), await serve({ hidesGroups: true })];
    const several = { ...settings, environment: threeCoins, steps: 2 };
    const [one, other] = [await trained(storing, several), await trained(whole, several)];
    const facts = ({ reason, counts, usage, record, trained: datums }: typeof one.facts) => ({
      ...{ reason, counts, usage, record, datums },
    });
    expect(facts(one.facts)).toEqual(facts(other.facts));
    expect(one.facts.trained).toHaveLength(2);
    const count = (logs: unknown, name: string) => JSON.stringify(logs).split(`"${name}"`).length - 1;
    const forms = [one, other].map(({ facts: { logs } }) =>
      ['prompt_token_ids', 'added_prompt_token_ids'].map((name) => count(logs[0], name)),
    );
    const rollouts = 2 * settings.groupsPerStep * settings.rolloutsPerGroup;
    expect(forms).toEqual([
      [rollouts, 2 * rollouts],
      [3 * rollouts, 0],
    ]);
  });

  test('that an earlier version began sends whole prompts to its end, so that a repeated log is the same', async () => {
    const served = await serve();
    const several = { ...settings, environment: threeCoins };
    const { model, runDirectory } = await trained(served, { ...several, steps: 1 });
    const file = join(runDirectory, 'state.json');
    const { groupForm, ...state } = JSON.parse(await readFile(file, 'utf8'));
    expect(groupForm).toBe('compact');
    await writeFile(file, JSON.stringify(state));
    await train({ ...several, steps: 2, client: served.client, runDirectory, resume: true });
    const logged = (await served.logged(model.id)).map((group) => JSON.stringify(group));
    expect(logged.map((group) => group.includes('"added_prompt_token_ids"'))).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });

  test('but reads no prompts by what they add gets the groups with the job', async () => {
    const served = await serve({ hidesAdded: true });
    expect((await trained(served, { steps: 1 })).facts.reason).toBe('finished');
    expect(served.asked(/\/groups$/)).toBe(0);
  });

  test('sends a group while the others of its step still run', async () => {
    const served = await serve();
    let release = () => {};
    const sent = new Promise<void>((resolve) => {
      release = resolve;
    });
    served.proxy.fault = ({ path }) => {
      if (path.endsWith('/groups')) release();
      return pass;
    };
    // Its rollouts end only if the other group of the step has been sent.
    const waiting = coins(async (id) => {
      if (id === 0) await sent;
    });
    const { facts } = await trained(served, {
      environment: waiting,
      scenarios: [{ id: 0 }, { id: 1 }],
      steps: 1,
    });
    expect(facts.reason).toBe('finished');
  });

  test('sends a group again that was sent half a day before its job', async () => {
    const served = await serve();
    vi.useFakeTimers({ toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    const stored = Promise.withResolvers<void>();
    served.proxy.fault = ({ path }) => {
      if (!path.endsWith('/groups')) return pass;
      return async (exchange) => {
        await pass(exchange);
        stored.resolve();
      };
    };
    const waiting = coins(async (id) => {
      if (id > 0) return;
      await stored.promise;
      vi.setSystemTime(Date.now() + 13 * 3_600_000);
    });
    const scenarios = [{ id: 0 }, { id: 1 }];
    await trained(served, { environment: waiting, scenarios, steps: 1 });
    expect(served.asked(/\/groups$/)).toBe(3);
    expect(served.engine.trained).toHaveLength(1);
  });

  test('leaves no log-probabilities in memory while the step trains', async () => {
    const served = await serve();
    const held: WeakRef<object>[] = [];
    const watched = coins(
      async () => {},
      (trajectory) => {
        for (const { choice } of trajectory.calls)
          if (choice.token_logprobs) held.push(new WeakRef(choice.token_logprobs));
      },
    );
    let left: number | undefined;
    served.proxy.fault =
      ({ path, method }) =>
      async (exchange) => {
        if (method === 'POST' && path.endsWith('/training-jobs')) {
          collectGarbage();
          left = held.filter((content) => content.deref()).length;
        }
        await pass(exchange);
      };
    await trained(served, { environment: watched, steps: 1 });
    // The validations before and after the step have two rollouts each.
    expect(held).toHaveLength(settings.groupsPerStep * settings.rolloutsPerGroup + 4);
    expect(left).toBe(0);
  });

  test('fails the rollout of a trajectory that the service refuses, and trains the others', async () => {
    class Misreporting extends CoinEngine {
      override async generate(request: GenerateRequest) {
        const isFirst = this.requests.length === 0;
        const generation = await super.generate(request);
        return isFirst ? { ...generation, logprobs: generation.logprobs.map(() => 0.5) } : generation;
      }
    }
    const served = await serve({ engine: new Misreporting() });
    const { validation: _, ...without } = settings;
    const runDirectory = join(await temporaryFolder(), 'run');
    const result = await train({ ...without, steps: 2, client: served.client, runDirectory });
    expect(result.counts).toEqual({ dispatched: 12, completed: 11, failed: 1, cancelled: 0 });
    expect(result.reports[0]?.failures).toEqual({ refused_by_service: 1 });
    const record = await readRecord(runDirectory);
    expect(JSON.stringify(record.trajectories['step-0000.jsonl'])).toContain(
      'which no log-probability can be',
    );
    const groups = await served.logged(result.model.id);
    expect(
      groups
        .map(
          (group) => z.looseObject({ trajectories: z.array(z.unknown()) }).parse(group).trajectories.length,
        )
        .sort(),
    ).toEqual([2, 3, 3, 3]);
  });

  test('ends with the error of a service that refuses every group', async () => {
    const served = await serve();
    const refused = answer(422, { detail: 'this service has no tokenizer' });
    served.proxy.fault = ({ path }) => (path.endsWith('/groups') ? refused : pass);
    await expect(trained(served)).rejects.toMatchObject({
      code: 'unprocessable',
      detail: 'this service has no tokenizer',
    });
  });

  test('sends a group again that did not arrive, and ends with an error that names the call if it never does', async () => {
    const cut: typeof pass = async ({ client }) => void client.destroy();
    const served = await serve();
    let cuts = 3;
    served.proxy.fault = ({ path }) => (path.endsWith('/groups') && cuts-- > 0 ? cut : pass);
    expect((await trained(served)).facts.reason).toBe('finished');
    served.proxy.fault = ({ path }) => (path.endsWith('/groups') ? cut : pass);
    const client = createClient({ ...served.client.options, retries: 1, awayMs: 0 });
    onTestFinished(() => client.close());
    const runDirectory = join(await temporaryFolder(), 'run');
    const another = { ...settings, model: { ...settings.model, name: 'two' } };
    await expect(train({ ...another, client, runDirectory })).rejects.toMatchObject({
      ...{ code: 'connection_failed', path: expect.stringMatching(/\/groups$/) },
    });
    const summary = JSON.parse(await readFile(join(runDirectory, 'summary.json'), 'utf8'));
    expect(summary.counts).toEqual({ dispatched: 6, completed: 6, failed: 0, cancelled: 0 });
    served.proxy.fault = () => pass;
    expect(await train({ ...another, client, runDirectory, resume: true })).toMatchObject({ finalStep: 4 });
  });

  test('is not resumed on a service that does not', async () => {
    const [storing, whole] = [await serve(), await serve({ hidesGroups: true })];
    const { runDirectory } = await trained(storing, { steps: 1 });
    // The other service is asked before anything that it does not have.
    storing.proxy.fault = whole.proxy.fault;
    const again = train({ ...settings, steps: 2, client: storing.client, runDirectory, resume: true });
    await expect(again).rejects.toMatchObject({
      code: 'resume_refused',
      message: expect.stringContaining('sends each group to the service when it ends'),
    });
  });

  test('may have two harnesses on one model: each trains on its own groups', async () => {
    const served = await serve();
    const { client } = served;
    const folders = [await temporaryFolder(), await temporaryFolder()];
    const outcomes = await Promise.allSettled(
      folders.map((folder, seed) =>
        train({
          ...{ environment, scenarios: settings.scenarios, model: settings.model, client, progress: false },
          ...{ steps: 1, groupsPerStep: 2, rolloutsPerGroup: 3, seed, runDirectory: join(folder, 'run') },
        }),
      ),
    );
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled']);
    expect(served.engine.trained).toHaveLength(2);
  });
});

describe('storesGroups', () => {
  const clientOf = async (status: number, body: string, dialect?: 'deployed') => {
    const asked: string[] = [];
    const server = await startServer((request, response) => {
      asked.push(request.url ?? '');
      response.writeHead(status, { 'content-type': 'application/json' }).end(body);
    });
    onTestFinished(() => server.close());
    const client = createClient({ baseUrl: server.url, apiKey: 'k', dialect, retries: 0 });
    onTestFinished(() => client.close());
    return { client, asked };
  };

  test.each([404, 405, 501])('is false for a service that answers its document with %i', async (status) => {
    const { client } = await clientOf(status, '{"detail":"no"}');
    expect(await client.storesGroups()).toBe(false);
  });

  test('is false for another document, and for the deployed dialect without asking', async () => {
    expect(await (await clientOf(200, '{"openapi":"3.1.0"}')).client.storesGroups()).toBe(false);
    for (const body of ['{}', '<html>'])
      expect(await (await clientOf(200, body)).client.storesGroups()).toBe(false);
    const { client, asked } = await clientOf(200, '{}', 'deployed');
    expect([await client.storesGroups(), await client.returnsTokenLists()]).toEqual([false, false]);
    expect(asked).toEqual([]);
  });

  test('fails with a service that fails', async () => {
    const { client } = await clientOf(500, '{"detail":"broken"}');
    await expect(client.storesGroups()).rejects.toMatchObject({ code: 'service_failed' });
  });
});
