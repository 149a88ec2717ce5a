import { setImmediate as nextTick } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { expect, onTestFinished, test, vi } from 'vitest';
import { builtInLanguage } from '../../../src/engines/embedded/built-in/built-in-language.ts';
import { ConversationRenderer } from '../../../src/language/chat/render.ts';
import { LanguageError } from '../../../src/language/error.ts';
import type { ReceivedBody } from '../../../src/service/bodies/bodies.ts';
import { fromLanguage, RequestValidationError, ServiceError } from '../../../src/service/errors.ts';
import { GroupPacker } from '../../../src/service/jobs/group-packer.ts';
import { baseModel, special, tokensOf } from '../../support/scripted-engine.ts';
import { choice, group, trajectory } from '../harness.ts';

const { tokenizer, format } = builtInLanguage();
const context = {
  base: baseModel,
  engine: { logitsProcessors: [] },
  tools: { format, renderer: new ConversationRenderer(tokenizer, format) },
  constraints: { find: async (hash: string) => (hash === 'known' ? hash : undefined) },
};

function received(value: unknown): ReceivedBody {
  const content = Buffer.from(JSON.stringify(value));
  return { bytes: content.length, content, fingerprint: '' };
}

/** One that reads in a thread, and one that does not. */
function packers() {
  const [threaded, local] = [
    new GroupPacker(() => builtInLanguage().shared),
    new GroupPacker(() => undefined),
  ];
  onTestFinished(() => threaded.close());
  return { threaded, local };
}

const sampledUnder = (constraint: string) => ({
  messages_and_choices: [
    { role: 'user', content: 'hi' },
    choice(tokensOf('yes', special.end), {
      sampling: { temperature: 1, top_p: 1, top_k: 0, min_p: 0, constraint },
    }),
  ],
  reward: 0,
});

test('a group read in a thread gives the same file, byte for byte, as one read here', async () => {
  const { threaded, local } = packers();
  const long = 'wörter '.repeat(20_000);
  for (const body of [
    group(),
    group(trajectory(1 / 3, tokensOf('yes', special.end)), sampledUnder('known')),
    {
      ...group(trajectory(1, tokensOf('no', special.end), { logs: [long] })),
      metadata: { long: long.slice(0, 999) },
    },
  ]) {
    const [one, other] = [
      await threaded.pack(received(body), context, {}),
      await local.pack(received(body), context, {}),
    ];
    const { content, ...counts } = one;
    const { content: expected, ...expectedCounts } = other;
    expect(counts).toEqual(expectedCounts);
    expect(Buffer.from(content).equals(expected)).toBe(true);
  }
});

test('what is wrong with a group is refused with the same error in a thread', async () => {
  const { threaded, local } = packers();
  const good = trajectory(1, tokensOf('yes', special.end));
  for (const body of [
    [],
    group(good, { ...good, reward: 'high' }, { ...good, colour: 'red' }),
    group(good, sampledUnder('unknown')),
    group({ ...good, messages_and_choices: [{ role: 'user', content: 'hi' }, choice([99_999])] }),
    group({ ...good, messages_and_choices: [{ role: 'user', content: 'x '.repeat(500_000) }, choice([65])] }),
  ]) {
    const refusalOf = async (packer: GroupPacker) => {
      const error: unknown = await packer.pack(received(body), context, {}).catch((cause) => cause);
      // What the thread sends is the error of the answer already.
      const answered = error instanceof LanguageError ? fromLanguage(error) : error;
      if (!(answered instanceof ServiceError)) throw new TypeError('not refused', { cause: error });
      const { status, code, message } = answered;
      return {
        status,
        code,
        message,
        ...(answered instanceof RequestValidationError && { issues: answered.issues }),
      };
    };
    const refused = await refusalOf(threaded);
    expect(refused).toEqual(await refusalOf(local));
    expect(refused.status).toBeOneOf([400, 422]);
  }
});

test('a thread that ends is started again, and the group that ended it is refused', async () => {
  const { threaded } = packers();
  const sampled = tokensOf('yes', special.end);
  expect((await threaded.pack(received(group(trajectory(1, sampled))), context, {})).trajectories).toBe(1);
  const large = received(group(...Array.from({ length: 4000 }, () => trajectory(1, sampled))));
  const posts = vi.spyOn(Worker.prototype, 'postMessage');
  const ended = threaded.pack(large, context, {});
  const refusal = expect(ended).rejects.toMatchObject({ status: 413, code: 'group_too_large' });
  // It has begun by then.
  for (let tick = 0; tick < 3; tick++) await nextTick();
  // As at the limit of its memory.
  for (const thread of posts.mock.contexts) if (thread instanceof Worker) await thread.terminate();
  posts.mockRestore();
  await refusal;
  expect((await threaded.pack(large, context, {})).trajectories).toBe(4000);
});
