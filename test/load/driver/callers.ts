// A harness in its own process: `callers.ts <JSON of CallersPlan>`. Keeps calls in flight until it has made all of
// them, and reports its figures on request.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Client as Connection } from 'undici';
import { createClient } from '../../../src/client/index.ts';
import { callBudget, ModelHandle } from '../../../src/model/index.ts';
import { Meter, type ProcessFigures } from './meter.ts';

export interface CallersPlan {
  url: string;
  apiKey: string;
  /** Number of callers. Each makes a new call as soon as its last is answered. */
  callers: number;
  /** Total number of calls; null: until the process ends. */
  calls: number | null;
  model: string;
  replyTokens: number;
  /** `harness`: one client with its pools; `connections`: one kept-alive connection for each caller. */
  kind: 'harness' | 'connections';
  /** Maximum of an adaptive call budget; null: no budget. */
  budget: number | null;
}

export interface CallersFigures extends ProcessFigures {
  answered: number;
  tokens: number;
  inFlight: number;
  /** Number of 429 and 503 answers, including those of retried calls. */
  limited: number;
  /** Number of calls that finally failed, by error. */
  failed: Record<string, number>;
  /** Age of the oldest call in flight, in milliseconds. */
  oldestMs: number;
  /** Duration of the longest call so far, in milliseconds. */
  longestMs: number;
}

export type FromCallers =
  | { type: 'figures'; figures: CallersFigures }
  | { type: 'done'; figures: CallersFigures };

const plan: CallersPlan = JSON.parse(process.argv[2] ?? '');
const begun = new Map<number, number>();
const totals = { answered: 0, tokens: 0, limited: 0, longestMs: 0 };
const failed: Record<string, number> = {};
let next = 0;

/** Makes a call, and returns the tokens of its reply. */
type Call = (index: number) => Promise<number>;

const { call, close } = plan.kind === 'harness' ? harness() : connections();
const meter = new Meter();

function harness(): { call: Call; close: () => Promise<void> } {
  const { url, apiKey, model: name, replyTokens, budget } = plan;
  const client = createClient({ baseUrl: url, apiKey, timeoutMs: 3_600_000, retries: 30 });
  const settings = {
    record: false,
    ...(budget === null
      ? {}
      : { budget: callBudget({ concurrency: { min: 16, max: budget, start: budget } }) }),
  };
  const model = new ModelHandle({ client, name, settings }).languageModel;
  return {
    close: () => client.close(),
    call: async (index) => {
      const { usage } = await model.doGenerate({
        prompt: [{ role: 'user', content: [{ type: 'text', text: `${index} the quick brown fox` }] }],
        seed: index,
        maxOutputTokens: replyTokens,
      });
      return usage.outputTokens.total ?? 0;
    },
  };
}

function connections(): { call: Call; close: () => Promise<void> } {
  const { url, apiKey, model, replyTokens, callers } = plan;
  const open = Array.from(
    { length: callers },
    () => new Connection(url, { headersTimeout: 0, bodyTimeout: 0 }),
  );
  const free = [...open];
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  return {
    close: async () => void (await Promise.all(open.map((connection) => connection.destroy()))),
    call: async (index) => {
      const connection = free.pop();
      if (!connection) throw new Error('more calls than connections');
      const messages = [{ role: 'user', content: `${index} the quick brown fox` }];
      const body = JSON.stringify({ model, messages, seed: index, max_completion_tokens: replyTokens });
      try {
        for (;;) {
          const answer = await connection.request({
            method: 'POST',
            path: '/v1/chat/completions',
            headers,
            body,
          });
          const text = await answer.body.text();
          if (answer.statusCode === 200) return JSON.parse(text).usage.completion_tokens;
          if (answer.statusCode !== 429) throw new Error(`${answer.statusCode}: ${text.slice(0, 300)}`);
          totals.limited++;
          const seconds = Number(answer.headers['retry-after']);
          if (!(seconds >= 1 && seconds <= 60)) throw new Error(`Retry-After of ${seconds}`);
          await new Promise((resolve) => setTimeout(resolve, seconds * 1000 * (1 + Math.random() / 4)));
        }
      } finally {
        free.push(connection);
      }
    },
  };
}

async function caller(): Promise<void> {
  while (plan.calls === null || next < plan.calls) {
    const index = next++;
    begun.set(index, performance.now());
    try {
      const tokens = await call(index);
      totals.tokens += tokens;
      totals.answered++;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      failed[reason] = (failed[reason] ?? 0) + 1;
    }
    totals.longestMs = Math.max(totals.longestMs, ageOf(index));
    begun.delete(index);
  }
}

const ageOf = (index: number) => performance.now() - (begun.get(index) ?? Number.POSITIVE_INFINITY);

function figures(): CallersFigures {
  const [oldest] = begun.keys();
  const oldestMs = oldest === undefined ? 0 : ageOf(oldest);
  return { ...meter.read(), ...totals, failed, inFlight: begun.size, oldestMs };
}

const say = (message: FromCallers) => process.send?.(message);
process.on('message', (message) => {
  if (message === 'figures') say({ type: 'figures', figures: figures() });
});
const callers: Promise<void>[] = [];
for (let index = 0; index < plan.callers; index++) {
  callers.push(caller());
  // Start in batches with a tick between them, as a harness starts its rollouts.
  if (index % 20 === 19) await nextTurn();
}
await Promise.all(callers);
say({ type: 'done', figures: figures() });
await close();
process.disconnect();
