import { mkdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rlConfigSchema } from '../../../src/contract/index.ts';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import type { Engine, GenerateRequest, TrainingBatch, Weights } from '../../../src/engines/engine.ts';
import type { Constraint } from '../../../src/language/grammar/constraint.ts';
import { type Datum, plainSampling, resolveRlConfig } from '../../../src/learning/index.ts';
import { sharedFolder } from '../../support/files.ts';
import { generateCheckpoint } from './checkpoint/generated.ts';
import { datumOf, base as tiny } from './support.ts';

const letters: Constraint = {
  grammar: { type: 'regex', pattern: '[a-f]{6}' },
};
const { loss } = resolveRlConfig(
  rlConfigSchema.parse({ kl_penalty_coef: 1, kl_penalty_reference_model: 'teacher' }),
  { learningRate: 1e-2 },
);

describe.each([1, 2])('a teacher in the process, with %i threads', (threads) => {
  const options = threads === 1 ? {} : { tags: ['long'] };
  const folder = sharedFolder();
  let engine: Engine;
  let student: Weights;
  let teacher: Weights;

  beforeAll(async () => {
    await Promise.all(['student', 'teacher'].map((name) => mkdir(join(folder, name))));
    const own = await generateCheckpoint(join(folder, 'student'), 'llama3');
    const other = await generateCheckpoint(join(folder, 'teacher'), 'llama3', {
      ...{ vocabularySize: 768, logitScale: 3, contextLength: 256 },
    });
    const checkpoints = [
      { folder: own, id: 'student' },
      { folder: other, id: 'teacher' },
    ];
    engine = await createEmbeddedEngine({ threads, checkpoints });
    student = { baseModel: 'student', folder: null };
    teacher = { baseModel: 'teacher', folder: null };
  });

  afterAll(() => engine.close());

  const asked = (weights: Weights, seed: number): GenerateRequest => ({
    ...{ weights, prompt: [300, 70 + seed, 71, 72], seed, maxTokens: 8, constraint: letters },
    sampling: { ...plainSampling, temperature: seed % 2 === 0 ? 1 : 0.6 },
    ...{ stopStrings: [], stopTokens: [], topLogprobs: 0, priority: 0, cacheSalt: null },
  });

  /** Replies under a constraint and two temperatures, without advantages. */
  const sample = (weights: Weights): Promise<Datum<Constraint>[]> =>
    Promise.all(
      [1, 2, 3, 4, 5, 6, 7, 8].map(async (seed) => {
        const request = asked(weights, seed);
        return datumOf(request, await engine.generate(request), 0);
      }),
    );

  let trained = 0;
  const train = async (from: Weights, batch: Omit<TrainingBatch, 'loss'>) => {
    let metrics: Record<string, number> = {};
    const to = { ...from, folder: join(folder, `${threads}-${trained++}`) };
    await engine.train({
      ...{ from, folder: to.folder, batches: [{ ...batch, loss }] },
      onStep: (step) => {
        metrics = step;
      },
    });
    return { to, metrics };
  };
  const vector = async ({ folder: path }: Weights) =>
    (await readFile(join(path ?? '', 'model.safetensors'))).toString('base64');

  it.each([
    ['a tiny model', tiny],
    ['a checkpoint', { baseModel: 'student', folder: null }],
  ] as const)('gives no gradient to %s that equals it', options, async (_, start) => {
    const datums = await sample(start);
    // Away from the start, so that an adapter has values.
    const { to } = await train(start, { datums, reference: teacherOf(start), learningRate: 1e-2 });
    const own = await sample(to);
    const same = await train(to, { datums: own, reference: to, learningRate: 1e-2 });
    expect(same.metrics).toMatchObject({ grad_norm: 0, kl_policy_ref: 0 });
    expect(same.metrics.num_decisions).toBeGreaterThan(12);
    const other = await train(to, { datums: own, reference: start, learningRate: 1e-2 });
    expect(other.metrics.grad_norm).toBeGreaterThan(1e-3);
  });

  /** Another base model with the same vocabulary. */
  const teacherOf = ({ baseModel }: Weights) =>
    baseModel === 'student' ? teacher : { baseModel: 'martingale-small', folder: null };

  it.each([
    ['a tiny model', tiny],
    ['a checkpoint', { baseModel: 'student', folder: null }],
  ] as const)(
    'scores the tokens of %s as it would sample them, with their constraint and temperature',
    options,
    async (_, weights) => {
      const letter: Constraint = {
        grammar: { type: 'regex', pattern: '[a-f]' },
      };
      const datums: Datum<Constraint>[] = [];
      const terms: { own: number; teacher: number }[] = [];
      for (let seed = 1; seed <= 8; seed++) {
        const request = { ...asked(weights, seed), constraint: letter, topLogprobs: 20 };
        const reply = await engine.generate(request);
        const other = await engine.generate({ ...request, weights: teacherOf(weights) });
        const scored = other.topLogprobs[0]?.find(({ token }) => token === reply.tokens[0]);
        datums.push(datumOf(request, reply, 0));
        terms.push({ own: reply.logprobs[0] as number, teacher: scored?.logprob as number });
      }
      const { metrics } = await train(weights, { datums, reference: teacherOf(weights), learningRate: 1e-2 });
      const sum = (of: (term: (typeof terms)[number]) => number) =>
        terms.reduce((total, term) => total + of(term), 0);
      const distance = sum(({ own, teacher: other }) => own - other) / terms.length;
      expect(Math.abs(distance)).toBeGreaterThan(0.01);
      expect(Math.abs((metrics.kl_policy_ref as number) - distance)).toBeLessThan(1e-4);
      // -A * l, where A is what the teacher gives, and each token weighs 0.01.
      const expected = sum(({ own, teacher: other }) => -0.01 * (other - own) * own);
      expect(Math.abs((metrics.loss as number) - expected)).toBeLessThan(1e-4);
    },
  );

  it('refuses what is longer than its context, and a checkpoint that was deleted', options, async () => {
    const [datum] = await sample(student);
    if (!datum) throw new Error('no datum');
    const filler = Array<number>(256).fill(70);
    const long = {
      tokens: [...filler, ...datum.tokens],
      spans: datum.spans.map((span) => ({ ...span, start: span.start + filler.length })),
    };
    await expect(
      train(student, { datums: [long], reference: teacher, learningRate: 1e-2 }),
    ).rejects.toMatchObject({ code: 'too_long', message: expect.stringContaining('256 of teacher') });
    const { to } = await train(student, { datums: [datum], reference: teacher, learningRate: 1e-2 });
    await rm(to.folder, { recursive: true });
    await expect(
      train(student, { datums: [datum], reference: to, learningRate: 1e-2 }),
    ).rejects.toMatchObject({ code: 'reference_missing' });
    // The next job is not harmed.
    await train(student, { datums: [datum], reference: teacher, learningRate: 1e-2 });
  });

  if (threads === 2)
    it('makes the same bits of a tiny model with one thread', async () => {
      const single = await createEmbeddedEngine({ threads: 1 });
      const datums = await sample(tiny);
      const reference = { baseModel: 'martingale-small', folder: null };
      const job = { from: tiny, folder: join(folder, 'single'), onStep: () => undefined };
      const batch = {
        datums,
        reference,
        learningRate: 1e-2,
        loss,
      };
      await single.train({ ...job, batches: [batch] });
      await single.close();
      const { to } = await train(tiny, { datums, reference, learningRate: 1e-2 });
      expect(await vector(to)).toBe(await vector({ ...tiny, folder: job.folder }));
    });
});
