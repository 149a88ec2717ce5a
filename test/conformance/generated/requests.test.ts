import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Engine } from '../../../src/engines/engine.ts';
import { type LogEntry, type RunningService, startService } from '../../../src/service/index.ts';
import { checkpointModel, type TestedModel, tinyModel } from '../../support/base-models.ts';
import { sharedFolder } from '../../support/files.ts';
import { testScale, testSeed } from '../../support/size.ts';
import { type Answered, problemInChat, problemInRefusal, type Sent, send } from './answers.ts';
import { chatDefinitions, chatRequests, chatSchema } from './chat-requests.ts';
import { mutationsOf } from './mutations.ts';
import { createOtherRequests, type OtherRequest } from './other-requests.ts';

/** Concurrent callers. */
const callers = 32;

/** Sends all requests, some concurrently; returns the first ten problems about the answers. */
async function problemsIn<Item>(
  service: () => RunningService,
  items: Item[],
  toSent: (item: Item) => Sent,
  problemIn: (answer: Answered, item: Item) => string | null,
): Promise<object[]> {
  const problems: object[] = [];
  let next = 0;
  const call = async () => {
    while (next < items.length && problems.length < 10) {
      const item = items[next++] as Item;
      const sent = toSent(item);
      try {
        const answer = await send(service(), sent);
        const problem = problemIn(answer, item);
        if (problem !== null) problems.push(report(item, problem, answer.text));
      } catch (error) {
        problems.push(report(item, String(error)));
      }
    }
  };
  await Promise.all(Array.from({ length: callers }, call));
  return problems;
}

/** A short form with everything needed to send the request again. */
const report = (item: unknown, problem: string, answer = '') => ({
  problem,
  request: JSON.stringify(item).slice(0, 3000),
  answer: answer.slice(0, 600),
});

interface Size {
  total: number;
  seed: number;
}

/**
 * Whether the service may refuse a valid request for what the model's template cannot write.
 */
const isLimit = ({ status, text }: Answered): boolean =>
  status === 422 && /"code":"not_in_chat_template"|enable_thinking: contradicts/.test(text);

function answersAll({ baseModel, open }: TestedModel, { total, seed }: Size): void {
  const folder = sharedFolder();
  let engine: Engine;
  let service: RunningService;
  const failures: LogEntry[] = [];

  beforeAll(async () => {
    engine = await open();
    service = await startService({
      engine,
      dataFolder: folder,
      log: (entry) => {
        if (entry.level === 'error') failures.push(entry);
      },
    });
  });

  afterAll(async () => {
    await service?.close();
    await engine?.close();
  });

  const timeout = 60_000 + total * 20;
  const sample = <Value>(arbitrary: fc.Arbitrary<Value>, part: number): Value[] =>
    fc.sample(arbitrary, { numRuns: Math.ceil(total * part), seed });

  it(
    'answers every valid chat completion',
    async () => {
      const requests = sample(chatRequests([baseModel]), 0.5);
      const problems = await problemsIn(
        () => service,
        requests,
        (body) => ({ method: 'POST', path: '/v1/chat/completions', body }),
        (answer, request) =>
          isLimit(answer) && baseModel !== tinyModel.baseModel ? null : problemInChat(answer, request),
      );
      expect(problems).toEqual([]);
    },
    timeout,
  );

  it(
    'refuses every invalid chat completion, in the form that clients read',
    async () => {
      const valid = chatRequests([baseModel]);
      const mutations = sample(mutationsOf(chatSchema, chatDefinitions, valid), 0.25);
      const problems = await problemsIn(
        () => service,
        mutations,
        ({ body }) => ({ method: 'POST', path: '/v1/chat/completions/', body: JSON.stringify(body) }),
        (answer, { body }) => problemInRefusal(answer, { openAi: true, body }),
      );
      expect(problems).toEqual([]);
    },
    timeout,
  );

  it(
    'answers every valid request of the other endpoints, and refuses every invalid one',
    async () => {
      const others = sample(await createOtherRequests(service), 0.25);
      const problems = await problemsIn(
        () => service,
        others,
        ({ sent }: OtherRequest) => sent,
        (answer, { valid, sent }) => {
          if (!valid)
            return problemInRefusal(answer, {
              openAi: /^\/(v1\/((chat|models)(\/|\?|$)|nothing$)|$)/.test(sent.path) || answer.status === 405,
              body: sent.body,
            });
          return answer.status === 200 ? null : `status ${answer.status}`;
        },
      );
      expect(problems).toEqual([]);
    },
    timeout,
  );

  it('never reports an internal fault', () => {
    expect(failures).toEqual([]);
  });
}

describe('500 generated requests', () => answersAll(tinyModel, { total: 500, seed: testSeed + 1 }));

describe('250 generated requests to a checkpoint', () =>
  answersAll(checkpointModel, { total: 250, seed: testSeed + 2 }));

describe(`${6_000 * testScale} generated requests`, { tags: ['long'] }, () =>
  answersAll(tinyModel, { total: 6_000 * testScale, seed: testSeed }),
);

describe(`${1_500 * testScale} generated requests to a checkpoint`, { tags: ['long'] }, () =>
  answersAll(checkpointModel, { total: 1_500 * testScale, seed: testSeed }),
);
