import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readCheckpoint } from '../../../src/engines/embedded/checkpoint/read-checkpoint.ts';
import { projections } from '../../../src/engines/embedded/checkpoint/tensors.ts';
import { ConversationCodec } from '../../../src/engines/embedded/conversation-codec.ts';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import { type Trained, trainedShapes } from '../../../src/engines/embedded/runner/adapter-vector.ts';
import { BatchGraphs } from '../../../src/engines/embedded/runner/batch-runner.ts';
import { loadRuntime } from '../../../src/engines/embedded/runtime.ts';
import { findDecisions } from '../../../src/engines/embedded/trainer/decisions.ts';
import { toMicroBatches } from '../../../src/engines/embedded/trainer/micro-batches.ts';
import { TrainingPasses } from '../../../src/engines/embedded/trainer/passes.ts';
import { readWeights } from '../../../src/engines/embedded/weights/checkpoint-files.ts';
import type { Engine, GenerateRequest } from '../../../src/engines/engine.ts';
import { readLanguage } from '../../../src/language/chat/read-language.ts';
import { toConstraint } from '../../../src/language/constraint/request-constraint.ts';
import type { Constraint } from '../../../src/language/grammar/constraint.ts';
import { plainSampling } from '../../../src/learning/index.ts';
import { sharedFolder } from '../../support/files.ts';
import { generateCheckpoint } from './checkpoint/generated.ts';
import { cispo, datumOf } from './support.ts';

const parent = sharedFolder();
let folder: string;
let convolutions: string;
let engine: Engine;

beforeAll(async () => {
  folder = await generateCheckpoint(parent, 'qwen3');
  const other = await generateCheckpoint(parent, 'llama3');
  convolutions = await generateCheckpoint(parent, 'lfm2');
  engine = await createEmbeddedEngine({
    threads: 2,
    checkpoints: [
      { folder, lora: { rank: 4 } },
      { folder: other, id: 'other', contextLength: 128 },
      { folder, id: 'whole', train: 'all' },
      { folder: convolutions, id: 'convolutions', train: 'all' },
    ],
  });
});
afterAll(() => engine?.close());

const id = 'qwen3-generated';
const lora = { rank: 4, alpha: 8, targets: projections };
const folderOf = (baseModel: string) => (baseModel === 'convolutions' ? convolutions : folder);
const regex = (pattern: string): Constraint => ({
  grammar: { type: 'regex', pattern },
});

function request(seed: number, more: Partial<GenerateRequest> = {}): GenerateRequest {
  const baseModel = more.weights?.baseModel ?? id;
  return {
    weights: { baseModel, folder: null },
    prompt: engine.tokenizer(baseModel).encode('Where is order 4821, and when does it come to me?'),
    sampling: plainSampling,
    seed,
    maxTokens: 24,
    stopStrings: [],
    stopTokens: [],
    constraint: null,
    topLogprobs: 0,
    priority: 0,
    cacheSalt: null,
    ...more,
  };
}

/** The log-probabilities of training for what was sampled. */
async function trainedLogprobs(
  asked: GenerateRequest,
  vector: Float32Array | null,
  trained: Trained = lora,
): Promise<number[][]> {
  const reply = await engine.generate(asked);
  const own = folderOf(asked.weights.baseModel);
  const codec = new ConversationCodec(new Map(), await readLanguage(own));
  const sequence = await findDecisions(datumOf(asked, reply, 1), codec);
  const checkpoint = await readCheckpoint(own);
  const graphs = await BatchGraphs.create(await loadRuntime('auto', 1), checkpoint, trained);
  const { architecture } = checkpoint;
  const batches = toMicroBatches([sequence], {
    architecture,
    bytes: 2 ** 30,
    keepsLayers: true,
    isShared: false,
  });
  const computed = await new TrainingPasses(batches, [graphs]).logprobs(vector, new AbortController().signal);
  await graphs.release();
  const sampled = sequence.decisions.map(
    ({ position }) => reply.logprobs[position + 1 - asked.prompt.length],
  );
  return [sampled as number[], computed];
}

describe('a checkpoint in the embedded engine', () => {
  it('is a base model with its own tokenizer, chat format and context', () => {
    expect(engine.baseModels.map((model) => model.id)).toEqual([
      'martingale-tiny',
      'martingale-small',
      id,
      'other',
      'whole',
      'convolutions',
    ]);
    const [, , model, other] = engine.baseModels;
    expect(model).toMatchObject({ contextLength: 512, vocabularySize: 709 });
    expect(model).not.toHaveProperty('weights');
    // Embedding; norms; attention with 4 query heads and 2 shared ones; MLP.
    const layer = 2 * 32 + 2 * 8 + 2 * 32 * 32 + 2 * 16 * 32 + 3 * 32 * 48;
    expect(model?.parameters).toBe(736 * 32 + 32 + 2 * layer);
    expect(other).toMatchObject({ contextLength: 128 });
    const text = 'Größe <|im_end|>\n';
    expect(engine.tokenizer(id).decode(engine.tokenizer(id).encode(text))).toBe(text);
    expect(engine.chatFormat(id).template).not.toBe(engine.chatFormat('other').template);
    expect(() => engine.tokenizer('qwen')).toThrow(
      /Unknown base model qwen. Known: .*qwen3-generated, other/,
    );
  });

  it('repeats a reply for its seed, streams it, and reports alternatives', async () => {
    const asked = request(7, { topLogprobs: 3 });
    const streamed: number[] = [];
    const first = await engine.generate(asked, ({ tokens }) => streamed.push(...tokens));
    const again = await engine.generate(asked);
    expect(streamed).toEqual(first.tokens);
    expect(again.tokens).toEqual(first.tokens);
    expect(again.cachedTokens).toBeGreaterThan(0);
    for (const [index, logprob] of again.logprobs.entries())
      expect(logprob).toBeCloseTo(first.logprobs[index] as number, 4);
    expect(first.topLogprobs.every((tokens) => tokens.length === 3)).toBe(true);
    const seeds = await Promise.all([1, 2, 3, 4].map((seed) => engine.generate(request(seed))));
    expect(new Set(seeds.map(({ tokens }) => String(tokens))).size).toBe(4);
  });

  it('writes only what a constraint allows, with the log-probabilities of training', async () => {
    const asked = request(5, { constraint: regex('(done|sorry), code [0-9]{3}') });
    const { tokens, finishReason } = await engine.generate(asked);
    expect(finishReason).toBe('stop');
    expect(engine.tokenizer(id).decode(tokens)).toMatch(/^(done|sorry), code [0-9]{3}$/);
    for (const one of [asked, request(6)]) {
      const [sampled = [], trained = []] = await trainedLogprobs(one, null);
      expect(sampled.length).toBeGreaterThan(3);
      for (const [index, logprob] of trained.entries())
        expect(Math.abs(logprob - (sampled[index] as number))).toBeLessThan(1e-4);
    }
  });

  it('calls a tool when it must', async () => {
    const parameters = { type: 'object', properties: { a: { enum: [1, 2] } }, required: ['a'] };
    const constraint = toConstraint(
      { tools: [{ type: 'function', function: { name: 'add', parameters } }], tool_choice: 'required' },
      {
        format: engine.chatFormat(id),
        contextLength: 512,
        engine: 'embedded',
        parseJson: (json) => JSON.parse(json),
      },
    );
    const { tokens } = await engine.generate(request(3, { constraint, maxTokens: 400 }));
    expect(engine.tokenizer(id).decode(tokens)).toMatch(/<tool_call>\s*\{"name": ?"add", ?"arguments": ?\{/);
  });

  it('finds the best replies, and scores a prompt as it samples', async () => {
    const constraint = regex('yes|no|perhaps');
    const found = await engine.beamSearch({ ...request(0, { constraint }), width: 3, lengthPenalty: 0 });
    expect(found.map(({ tokens }) => engine.tokenizer(id).decode(tokens)).sort()).toEqual([
      'no',
      'perhaps',
      'yes',
    ]);
    const { prompt, weights } = request(0);
    const scores = await engine.scorePrompt({ weights, prompt, top: 2 });
    expect(scores[0]).toBeNull();
    expect(scores).toHaveLength(prompt.length);
    for (const score of scores.slice(1)) expect(score?.top[0]?.token).toBeLessThan(709);
  });

  it('samples while the tiny models and another checkpoint do', async () => {
    const ids = [id, 'other', 'martingale-tiny'];
    const replies = await Promise.all(
      ids.map((baseModel) =>
        engine.generate(
          request(1, { weights: { baseModel, folder: null }, constraint: regex('[a-f]{8}'), maxTokens: 40 }),
        ),
      ),
    );
    for (const [index, { tokens }] of replies.entries())
      expect(engine.tokenizer(ids[index] as string).decode(tokens)).toMatch(/^[a-f]{8}$/);
    await expect(
      engine.generate(
        request(1, { weights: { baseModel: 'other', folder: null }, prompt: Array(128).fill(5) }),
      ),
    ).rejects.toThrow(/1 to 127 tokens/);
    await expect(engine.generate(request(1, { prompt: [709] }))).rejects.toThrow(/Ids are 0 to 708/);
  });

  it.each<[string, string, Trained]>([
    ['by LoRA', id, lora],
    ['in all its weights', 'whole', 'all'],
    ['in all its weights, kernels of convolutions too', 'convolutions', 'all'],
  ])('is trained %s; what was trained is sampled from', async (_, baseModel, trained) => {
    const base = { baseModel, folder: null };
    const asked = request(9, { weights: base, constraint: regex('[a-d]{12}') });
    const reply = await engine.generate(asked);
    const encoded = await engine.encodeReplies(baseModel, [{ parts: ['abcd'], constraint: null }]);
    expect(engine.tokenizer(baseModel).decode(encoded[0] ?? [])).toBe('abcd');
    const weights = { baseModel, folder: join(parent, `trained-${baseModel}`) };
    const loss = { type: 'cross_entropy' } as const;
    const metrics: Record<string, number>[] = [];
    const batch = { datums: [datumOf(asked, reply, 1)], loss, reference: null, learningRate: 1e-2 };
    await engine.train({
      from: base,
      folder: weights.folder,
      batches: Array(8).fill(batch),
      onStep: (step) => metrics.push(step),
    });
    expect(metrics).toHaveLength(8);
    expect(metrics[0]?.logprob_difference_max).toBeLessThan(1e-4);
    const sum = (logprobs: readonly number[]) => logprobs.reduce((total, value) => total + value, 0);
    const again = { ...asked, weights, sampling: { ...plainSampling, temperature: 0 } };
    const likeliest = await engine.generate(again);
    expect(engine.tokenizer(baseModel).decode(likeliest.tokens)).toBe(
      engine.tokenizer(baseModel).decode(reply.tokens),
    );
    const resampled = await engine.generate({ ...asked, weights });
    expect(sum(resampled.logprobs)).not.toBeCloseTo(sum(reply.logprobs), 2);
    const { architecture } = await readCheckpoint(folderOf(baseModel));
    const vector = await readWeights(weights.folder, trainedShapes(architecture, trained));
    const [sampled = [], computed = []] = await trainedLogprobs({ ...asked, weights }, vector, trained);
    for (const [index, logprob] of computed.entries())
      expect(Math.abs(logprob - (sampled[index] as number))).toBeLessThan(1e-4);
    // The base model is as before, and it is the reference of a penalty.
    expect((await engine.generate(asked)).tokens).toEqual(reply.tokens);
    const klPenalty = { coefficient: 0.1, source: 'current_learner', isCentred: true } as const;
    const penalised = { ...batch, loss: { ...cispo, klPenalty }, reference: base, learningRate: 1e-5 };
    await engine.train({
      from: weights,
      folder: `${weights.folder}-further`,
      batches: [penalised],
      onStep: (step) => metrics.push(step),
    });
    expect(metrics[8]?.kl_policy_ref).toBeGreaterThan(0.1);
  });
});

describe('checkpoints are refused at creation', () => {
  const refusal = (checkpoints: Parameters<typeof createEmbeddedEngine>[0] & object) =>
    createEmbeddedEngine(checkpoints).then(
      () => 'none',
      ({ message }: Error) => message,
    );

  it('when options are wrong, which are named', async () => {
    const open = (more: object) => refusal({ checkpoints: [{ folder, ...more }] });
    expect(await open({ folder: join(parent, 'nowhere') })).toContain('nowhere');
    expect(await open({ id: 'martingale-tiny' })).toContain('two base models are called martingale-tiny');
    for (const contextLength of [1, 513])
      expect(await open({ contextLength })).toMatch(
        /`contextLength` is (1|513). Pass a whole number from 2 to 512 /,
      );
    expect(await open({ lora: { rank: 0 } })).toMatch(/`lora.rank` is 0/);
    expect(await open({ lora: { alpha: -1 } })).toMatch(/`lora.alpha` is -1/);
    expect(await open({ lora: { targets: ['q'] } })).toMatch(/`lora.targets` has q\. Pass some of q_proj/);
    expect(await open({ lora: { targets: ['in_proj'] } })).toMatch(
      /has in_proj\. Pass some of q_proj, k_proj, v_proj, o_proj, gate_proj, /,
    );
    expect(await open({ folder: convolutions, lora: { targets: ['w1', 'o_proj'] } })).toMatch(
      /has o_proj\. Pass some of q_proj, k_proj, v_proj, out_proj, in_proj, w1, w3, w2\./,
    );
    expect(await open({ train: 'some' })).toMatch(/`train` is some\. Pass 'lora' or 'all'/);
    expect(await open({ train: 'all', lora: { alpha: 2 } })).toMatch(
      /`train` is 'all', and lora.alpha is for/,
    );
    expect(await open({ train: 'all', adapter: folder })).toMatch(/and adapter is for adapters.*merge it/);
    expect(await refusal({ checkpoints: [{ folder, train: 'all' }], device: 'webgpu' })).toMatch(
      /`train` is 'all', which needs the device cpu/,
    );
    expect(await open({ format: { toolCalls: 'xml' } })).toMatch(/`format.toolCalls` is xml.* hermes, /);
    expect(await open({ format: { reasoning: 'r' } })).toMatch(/`format.reasoning` is r\. .* think, none/);
  });

  it('and jobs whose sequences need more memory than allowed, with the sum', async () => {
    const small = await createEmbeddedEngine({ threads: 1, checkpoints: [{ folder }], trainingBytes: 1e6 });
    const asked = request(1, { maxTokens: 4, sampling: { ...plainSampling, ignoreEnd: true } });
    const datums = [datumOf(asked, await small.generate(asked), 1)];
    const loss = { type: 'cross_entropy' } as const;
    const job = {
      from: { baseModel: id, folder: null },
      folder: join(parent, 'refused'),
      batches: [{ datums, loss, reference: null, learningRate: 1e-3 }],
      onStep: () => {},
    };
    await expect(small.train(job)).rejects.toMatchObject({
      code: 'too_long',
      message: expect.stringMatching(
        /needs \d\.\d+ GB beside the weights, and 0\.00 GB are allowed.*trainingBytes/,
      ),
    });
    await small.close();
    expect(await refusal({ trainingBytes: 0 })).toMatch(/`trainingBytes` is 0/);
  });

  it('when the folder lacks or contradicts what the engine needs', async () => {
    const broken = await generateCheckpoint(parent, 'smollm2');
    const config = JSON.parse(await readFile(join(broken, 'config.json'), 'utf8'));
    await writeFile(join(broken, 'config.json'), JSON.stringify({ ...config, model_type: 'gpt2' }));
    expect(await refusal({ checkpoints: [{ folder: broken }] })).toContain('gpt2');
    await writeFile(join(broken, 'config.json'), JSON.stringify(config));
    await rm(join(broken, 'tokenizer.json'));
    expect(await refusal({ checkpoints: [{ folder: broken }] })).toContain('tokenizer.json');
  });
});
