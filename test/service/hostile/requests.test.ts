import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import type { Engine } from '../../../src/engines/engine.ts';
import { type LogEntry, type RunningService, startService } from '../../../src/service/index.ts';
import { sharedFolder } from '../../support/files.ts';
import { testScale, testSeed } from '../../support/size.ts';
import { hostileJson, hostileWork } from './hostile-values.ts';
import { instanceWith, placesOfRequests } from './request-bounds.ts';

/** The time after which a request counts as hanging. */
const answerTimeoutMs = 120_000;
const callers = 4;
/** The memory that the process may gain, including requests of megabytes and their client. */
const memoryBytes = 1.5 * 2 ** 30;

const folder = sharedFolder();
let engine: Engine;
let service: RunningService;
let modelId: string;
const faults: LogEntry[] = [];

interface Sent {
  method: string;
  path: string;
  body: string;
}

const post = (path: string, body: string): Sent => ({ method: 'POST', path, body });

async function send({ method, path, body }: Sent): Promise<{ status: number; text: string }> {
  const response = await fetch(service.url + path, {
    method,
    headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' },
    body,
    signal: AbortSignal.timeout(answerTimeoutMs),
  });
  return { status: response.status, text: await response.text() };
}

beforeAll(async () => {
  engine = await createEmbeddedEngine({ threads: 1 });
  service = await startService({
    engine,
    dataFolder: folder,
    log: (entry) => {
      if (entry.level === 'error') faults.push(entry);
    },
  });
  const model = await send(
    post('/v1/preview/models', '{"project":"p","name":"m","base_model":"martingale-tiny"}'),
  );
  modelId = JSON.parse(model.text).id;
});

afterAll(async () => {
  await service.close();
  await engine.close();
});

const marker = '@hostile@';
const places = placesOfRequests().filter(({ operation }) => !operation.startsWith('get'));

/** A request with a hostile value at one of its paths, or an expensive chat. */
const hostileRequests: fc.Arbitrary<Sent> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.tuple(fc.constantFrom(...places), hostileJson).map(([place, value]): Sent => {
      const [method = '', path = ''] = place.operation.split(' ');
      const body = JSON.stringify(instanceWith(place.root, place.root, place.way, marker)) ?? marker;
      return {
        method: method.toUpperCase(),
        path: path.replace('{model_id}', modelId),
        body: body.replace(`"${marker}"`, () => value),
      };
    }),
  },
  {
    weight: 2,
    arbitrary: hostileWork.map((fields) =>
      post('/v1/chat/completions', `{"messages":[{"role":"user","content":"a"}],"max_tokens":4,${fields}}`),
    ),
  },
  hostileJson.map((value) => post('/v1/chat/completions', value)),
);

const shown = ({ method, path, body }: Sent) => `${method} ${path} ${body.slice(0, 300)}`;

describe('random hostile requests', () => {
  async function areAnswered(total: number, seed: number): Promise<void> {
    const requests = fc.sample(hostileRequests, { numRuns: total, seed });
    const before = process.memoryUsage.rss();
    const problems: string[] = [];
    let next = 0;
    let largest = 0;
    const call = async () => {
      for (let sent = requests[next++]; sent && problems.length < 10; sent = requests[next++]) {
        try {
          const { status, text } = await send(sent);
          if (status >= 500 || text.length > 4_000_000)
            problems.push(`${status} ${text.slice(0, 300)} to ${shown(sent)}`);
        } catch (error) {
          problems.push(`${error} ${shown(sent)}`);
        }
        largest = Math.max(largest, process.memoryUsage.rss() - before);
      }
    };
    await Promise.all(Array.from({ length: callers }, call));
    expect(problems).toEqual([]);
    expect(faults).toEqual([]);
    expect(largest).toBeLessThan(memoryBytes);
    const { status } = await send(
      post('/v1/chat/completions', '{"messages":[{"role":"user","content":"a"}],"max_tokens":1}'),
    );
    expect(status).toBe(200);
  }

  it('are answered without an internal error and leave the service unchanged: 60', () =>
    areAnswered(60, testSeed + 1));

  const many = 300 * testScale;
  it(
    `are answered without an internal error and leave the service unchanged: ${many}`,
    {
      tags: ['long'],
      timeout: many * 1000,
    },
    () => areAnswered(many, testSeed),
  );
});
