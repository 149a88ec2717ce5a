import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import type { Engine } from '../../../src/engines/engine.ts';
import { type LogEntry, type RunningService, startService } from '../../../src/service/index.ts';
import { sharedFolder } from '../../support/files.ts';
import { testScale, testSeed } from '../../support/size.ts';
import { type Answered, complaintAboutChat, complaintAboutRefusal, type Sent, send } from './answers.ts';
import { chatDefinitions, chatRequests, chatSchema } from './chat-requests.ts';
import { mutationsOf } from './mutations.ts';
import { createOtherRequests, type OtherRequest } from './other-requests.ts';

/** Concurrent callers. */
const callers = 32;

const folder = sharedFolder();
let engine: Engine;
let service: RunningService;
const failures: LogEntry[] = [];

beforeAll(async () => {
  engine = await createEmbeddedEngine({ threads: 1 });
  service = await startService({
    engine,
    dataFolder: folder,
    log: (entry) => {
      if (entry.level === 'error') failures.push(entry);
    },
  });
});

afterAll(async () => {
  await service.close();
  await engine.close();
});

/** Sends all requests, some concurrently; returns the first ten complaints about the answers. */
async function complaintsAbout<Item>(
  items: Item[],
  toSent: (item: Item) => Sent,
  complain: (answer: Answered, item: Item) => string | null,
): Promise<object[]> {
  const complaints: object[] = [];
  let next = 0;
  const call = async () => {
    while (next < items.length && complaints.length < 10) {
      const item = items[next++] as Item;
      const sent = toSent(item);
      try {
        const answer = await send(service, sent);
        const complaint = complain(answer, item);
        if (complaint !== null) complaints.push(report(item, complaint, answer.text));
      } catch (error) {
        complaints.push(report(item, String(error)));
      }
    }
  };
  await Promise.all(Array.from({ length: callers }, call));
  return complaints;
}

/** A short form with everything needed to send the request again. */
const report = (item: unknown, complaint: string, answer = '') => ({
  complaint,
  request: JSON.stringify(item).slice(0, 3000),
  answer: answer.slice(0, 600),
});

interface Size {
  total: number;
  seed: number;
}

function answersAll({ total, seed }: Size): void {
  const timeout = 60_000 + total * 20;
  const sample = <Value>(arbitrary: fc.Arbitrary<Value>, part: number): Value[] =>
    fc.sample(arbitrary, { numRuns: Math.ceil(total * part), seed });

  it(
    'answers every valid chat completion',
    async () => {
      const requests = sample(chatRequests(['martingale-tiny']), 0.5);
      const complaints = await complaintsAbout(
        requests,
        (body) => ({ method: 'POST', path: '/v1/chat/completions', body }),
        complaintAboutChat,
      );
      expect(complaints).toEqual([]);
    },
    timeout,
  );

  it(
    'refuses every invalid chat completion, in the form that clients read',
    async () => {
      const valid = chatRequests(['martingale-tiny']);
      const mutations = sample(mutationsOf(chatSchema, chatDefinitions, valid), 0.25);
      const complaints = await complaintsAbout(
        mutations,
        ({ body }) => ({ method: 'POST', path: '/v1/chat/completions/', body: JSON.stringify(body) }),
        (answer, { body }) => complaintAboutRefusal(answer, { openAi: true, body }),
      );
      expect(complaints).toEqual([]);
    },
    timeout,
  );

  it(
    'answers every valid request of the other endpoints, and refuses every invalid one',
    async () => {
      const others = sample(await createOtherRequests(service), 0.25);
      const complaints = await complaintsAbout(
        others,
        ({ sent }: OtherRequest) => sent,
        (answer, { valid, sent }) => {
          if (!valid)
            return complaintAboutRefusal(answer, {
              openAi: /^\/(v1\/((chat|models)(\/|\?|$)|nothing$)|$)/.test(sent.path) || answer.status === 405,
              body: sent.body,
            });
          return answer.status === 200 ? null : `status ${answer.status}`;
        },
      );
      expect(complaints).toEqual([]);
    },
    timeout,
  );

  it('never reports an internal fault', () => {
    expect(failures).toEqual([]);
  });
}

describe('3,000 generated requests', () => answersAll({ total: 3_000, seed: testSeed + 1 }));

describe(`${20_000 * testScale} generated requests`, { tags: ['long'] }, () =>
  answersAll({ total: 20_000 * testScale, seed: testSeed }),
);
