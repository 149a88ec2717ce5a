import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createEmbeddedEngine, type EmbeddedEngineOptions } from '../../../src/engines/embedded/index.ts';
import type { Runtime } from '../../../src/engines/embedded/runtime.ts';
import { Trainer, type TrainerOptions } from '../../../src/engines/embedded/trainer/trainer.ts';
import type {
  Engine,
  GenerateRequest,
  Generation,
  TrainingBatch,
  Weights,
} from '../../../src/engines/engine.ts';
import type { Constraint } from '../../../src/language/grammar/constraint.ts';
import { type Datum, type LossConfig, plainSampling } from '../../../src/learning/index.ts';
import { writtenCall } from '../../support/written-call.ts';

export const baseModel = 'martingale-tiny';
export const base: Weights = { baseModel, folder: null };
export const cispo: LossConfig = {
  type: 'cispo',
  epsilon: 1,
  epsilonHigh: 4,
  maskRatio: false,
  maxRatio: null,
  tau: 0,
  precalculateLogprobs: false,
  entropyCoefficient: 0.01,
  importanceLevel: 'token',
  truncation: null,
  klPenalty: null,
};

/** A trainer of one runtime. */
export const openTrainer = (
  runtime: Runtime,
  options: Partial<TrainerOptions> & Pick<TrainerOptions, 'models' | 'codecOf'>,
) => new Trainer(runtime, { checkpointRuntime: runtime, trainingBytes: 2 ** 32, ...options });

export function batchOf(datums: Datum<Constraint>[], learningRate = 1e-3): TrainingBatch {
  return { datums, loss: cispo, reference: null, learningRate };
}

/** The training datum of a reply. */
export function datumOf(
  asked: GenerateRequest,
  { tokens, logprobs }: Generation,
  advantage: number,
): Datum<Constraint> {
  const span = {
    start: asked.prompt.length,
    length: tokens.length,
    logprobs,
    sampling: asked.sampling,
    constraint: asked.constraint,
    advantage,
    weight: 0.01,
  };
  return { tokens: [...asked.prompt, ...tokens], spans: [span] };
}

/** An engine with a checkpoint folder, and requests to it. */
export class Bench {
  readonly engine: Engine;
  readonly folder: string;
  /** The weights that requests sample from. */
  weights = base;

  private constructor(engine: Engine, folder: string) {
    this.engine = engine;
    this.folder = folder;
  }

  static async open(options: EmbeddedEngineOptions = {}): Promise<Bench> {
    const engine = await createEmbeddedEngine({ threads: 1, ...options });
    return new Bench(engine, await mkdtemp(join(tmpdir(), 'martingale-engine-')));
  }

  async close(): Promise<void> {
    await this.engine.close();
    await rm(this.folder, { recursive: true });
  }

  prompt(text: string): number[] {
    const tokenizer = this.engine.tokenizer(baseModel);
    const special = (name: string) => tokenizer.special.get(name) as number;
    return [special('<|user|>'), ...tokenizer.encode(text), special('<|end|>'), special('<|assistant|>')];
  }

  /** Two sentences, or a call of one of two tools. */
  constraint(): Constraint {
    const order = { type: 'string', pattern: '^\\d{4}$' };
    const schema = {
      type: 'object',
      properties: { order },
      required: ['order'],
      additionalProperties: false,
    };
    const alternatives = ['refund', 'track'].map((name) => ({ name, schema }));
    const pattern = '(done|sorry), code [0-9]{2}';
    return {
      grammar: {
        type: 'text_or_calls',
        content: { type: 'regex', pattern },
        calls: {
          type: 'named_json',
          alternatives,
          written: writtenCall,
        },
        tag: '<tool_call>',
        reasoning: null,
      },
    };
  }

  request(text: string, seed: number, more: Partial<GenerateRequest> = {}): GenerateRequest {
    return {
      weights: this.weights,
      prompt: this.prompt(text),
      sampling: plainSampling,
      seed,
      maxTokens: 60,
      stopStrings: [],
      stopTokens: [],
      constraint: this.constraint(),
      topLogprobs: 0,
      priority: 0,
      cacheSalt: null,
      ...more,
    };
  }

  generate(asked: readonly GenerateRequest[]): Promise<Generation[]> {
    return Promise.all(asked.map((one) => this.engine.generate(one)));
  }

  /** Samples replies; returns their training data. */
  async sample(
    asked: readonly GenerateRequest[],
    advantage: (index: number) => number,
  ): Promise<Datum<Constraint>[]> {
    const replies = await this.generate(asked);
    return asked.map((one, index) => datumOf(one, replies[index] as Generation, advantage(index)));
  }

  /** Trains one step from some weights to a named checkpoint. */
  async train(from: Weights, name: string, datums: Datum<Constraint>[], learningRate = 1e-3) {
    const to = { baseModel, folder: join(this.folder, name) };
    let metrics: Record<string, number> = {};
    await this.engine.train({
      from,
      folder: to.folder,
      batches: [batchOf(datums, learningRate)],
      onStep: (step) => {
        metrics = step;
      },
    });
    return { to, metrics };
  }

  /** Trains on a few replies, so that the weights are no longer those of a base model. */
  async warmUp(): Promise<void> {
    const texts = ['refund order 4821', 'where is order 17', 'hello'];
    for (let round = 0; round < 3; round++) {
      const asked = texts.flatMap((text, index) => [
        this.request(text, index),
        this.request(text, index + 100),
      ]);
      const datums = await this.sample(asked, (index) => (index % 2 ? 1 : -1));
      this.weights = (await this.train(this.weights, `warm-${round}`, datums, 1e-2)).to;
    }
  }
}
