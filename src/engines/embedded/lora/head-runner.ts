import type { InferenceSession, Tensor } from 'onnxruntime-common';
import { finalNormTensor } from '../checkpoint/tensors.ts';
import {
  headLogitsBackwardGraph,
  headLogitsGraph,
  headLogprobsGraph,
  headSlopesGraph,
  maskedLogit,
} from '../graphs/head-graphs.ts';
import { logitRowsOf } from '../graphs/logit-outputs.ts';
import { type Feeds, freeAll, type Runtime, type Session } from '../runtime.ts';
import type { LogitRows } from '../sampling/distribution.ts';
import type { Architecture, TensorShape } from '../weights/architecture.ts';
import { type GradientSum, type Trained, trainedShapes } from './adapter-vector.ts';
import { headOf, type LoraBase, partFeeds, type TrainedTensor, weightOf } from './layer-feeds.ts';
import { headRows } from './training-memory.ts';

/** A decision whose sampling parameters are a temperature and a set of legal tokens. */
export interface PlainDecision {
  /** Index of the state that predicts the token: sequence * time + position. */
  row: number;
  token: number;
  /** 0, which is greedy, counts as 1. At least 1e-6 otherwise: smaller ones go through the logits. */
  temperature: number;
  /**
   * Returns the legal tokens, or null when all are. It is called when its chunk runs, because the arrays of all decisions
   * may be too many. Decisions whose arrays are the same object share a mask.
   */
  legal: () => Int32Array | null;
}

interface TokenProbabilities {
  /** Of each decision's token, natural logarithm. */
  logprobs: Float32Array;
  /** Of each decision's distribution, in nats. */
  entropies: Float32Array;
}

/** Where a backward pass adds what it computes. */
interface HeadGradients {
  /** dLoss/dstates, [tokens, width]. */
  gradient: Float32Array;
  sum: GradientSum;
}

/** Derivatives of the loss, one for each decision. */
interface ProbabilitySlopes {
  logprobs: ArrayLike<number>;
  entropies: ArrayLike<number>;
}

/** The states before the head [tokens, width], and what is trained; null for the checkpoint as it is. */
export interface HeadStates {
  states: Float32Array;
  vector: Float32Array | null;
}

type HeadSessions = Record<'logprobs' | 'slopes' | 'logits' | 'logitsBackward', Session>;

/**
 * Runs the head of a checkpoint on the states before it, in chunks of decisions, so that memory does not depend on their
 * number. The backward passes compute the logits again.
 */
export class HeadRunner {
  readonly #runtime: Runtime;
  readonly #base: LoraBase;
  /** The checkpoint's own weights. */
  readonly #weights: Feeds;
  readonly #trained: Record<'norm' | 'embedding', TrainedTensor> | null;
  readonly #sessions: HeadSessions;

  private constructor(runtime: Runtime, base: LoraBase, trained: Trained, sessions: HeadSessions) {
    this.#runtime = runtime;
    this.#base = base;
    this.#sessions = sessions;
    const { architecture } = base;
    const { width, vocabularySize } = architecture;
    this.#weights = {
      norm: runtime.constant(weightOf(base, finalNormTensor(architecture)), [width]),
      embedding: runtime.constant(weightOf(base, headOf(architecture)), [vocabularySize, width]),
    };
    this.#trained = trained === 'all' ? trainedHead(architecture) : null;
  }

  static async create(runtime: Runtime, base: LoraBase, trained: Trained): Promise<HeadRunner> {
    const { architecture } = base;
    const trainsHead = trained === 'all';
    return new HeadRunner(runtime, base, trained, {
      logprobs: await runtime.session(headLogprobsGraph(architecture)),
      slopes: await runtime.session(headSlopesGraph(architecture, trainsHead)),
      logits: await runtime.session(headLogitsGraph(architecture)),
      logitsBackward: await runtime.session(headLogitsBackwardGraph(architecture, trainsHead)),
    });
  }

  async probabilities(states: HeadStates, decisions: readonly PlainDecision[]): Promise<TokenProbabilities> {
    const logprobs = new Float32Array(decisions.length);
    const entropies = new Float32Array(decisions.length);
    for (const [start, chunk] of inChunks(decisions)) {
      const { logprob, entropy } = await this.#sessions.logprobs.run({
        ...this.#decisionFeeds(states, chunk),
        targets: this.#integers(tokensOf(chunk), [chunk.length, 1]),
      });
      logprobs.set(logprob?.data as Float32Array, start);
      entropies.set(entropy?.data as Float32Array, start);
    }
    return { logprobs, entropies };
  }

  /** Adds dLoss/dstates to `gradient` [tokens, width], and to `sum` the gradient of what is trained of the head. */
  async addSlopes(
    states: HeadStates,
    decisions: readonly PlainDecision[],
    slopes: ProbabilitySlopes,
    { gradient, sum }: HeadGradients,
  ): Promise<void> {
    for (const [start, chunk] of inChunks(decisions)) {
      const column = (values: ArrayLike<number>) => {
        const data = Float32Array.from(chunk, (_, index) => values[start + index] as number);
        return this.#runtime.float(data, [chunk.length, 1]);
      };
      const outputs = await this.#sessions.slopes.run({
        ...this.#decisionFeeds(states, chunk),
        targets: this.#integers(tokensOf(chunk), [chunk.length]),
        slope: column(slopes.logprobs),
        entropy_slope: column(slopes.entropies),
      });
      const rows = chunk.map(({ row }) => row);
      this.#addRows(gradient, rows, outputs.state_gradient?.data as Float32Array);
      this.#addTrained(sum, outputs, tokensOf(chunk));
    }
  }

  /**
   * The logits of at most `headRows` states, for sampling parameters that the graphs do not know. The caller frees them
   * (`freeAll`).
   */
  async logits(states: HeadStates, rows: readonly number[]): Promise<LogitRows> {
    return logitRowsOf(await this.#sessions.logits.run(this.#stateFeeds(states, rows)));
  }

  /** As `addSlopes`, from dLoss/dlogits [rows, vocabulary]. */
  async addLogitsGradient(
    states: HeadStates,
    rows: readonly number[],
    logitsGradient: Float32Array,
    { gradient, sum }: HeadGradients,
  ): Promise<void> {
    const { vocabularySize } = this.#base.architecture;
    const outputs = await this.#sessions.logitsBackward.run({
      ...this.#stateFeeds(states, rows),
      logits_gradient: this.#runtime.float(logitsGradient, [rows.length, vocabularySize]),
    });
    this.#addRows(gradient, rows, outputs.state_gradient?.data as Float32Array);
    this.#addTrained(sum, outputs);
  }

  async release(): Promise<void> {
    for (const session of Object.values(this.#sessions)) await session.release();
  }

  #stateFeeds({ states, vector }: HeadStates, rows: readonly number[]): Feeds {
    const { width } = this.#base.architecture;
    const trained =
      vector && this.#trained ? partFeeds(this.#runtime, Object.values(this.#trained), vector) : {};
    const gathered = new Float32Array(rows.length * width);
    for (const [index, row] of rows.entries())
      gathered.set(states.subarray(row * width, (row + 1) * width), index * width);
    return { ...this.#weights, ...trained, state: this.#runtime.float(gathered, [rows.length, width]) };
  }

  #decisionFeeds(states: HeadStates, chunk: readonly PlainDecision[]): Feeds {
    const { vocabularySize } = this.#base.architecture;
    const legalOf = chunk.map(({ legal }) => legal());
    const sets = [...new Set(legalOf)];
    const masks = new Float32Array(sets.length * vocabularySize);
    for (const [set, legal] of sets.entries()) {
      if (!legal) continue;
      const from = set * vocabularySize;
      masks.fill(maskedLogit, from, from + vocabularySize);
      for (const token of legal) masks[from + token] = 0;
    }
    const inverse = chunk.map(({ temperature }) => 1 / (temperature === 0 ? 1 : temperature));
    const setOf = legalOf.map((legal) => sets.indexOf(legal));
    return {
      ...this.#stateFeeds(
        states,
        chunk.map(({ row }) => row),
      ),
      inverse_temperature: this.#runtime.float(Float32Array.from(inverse), [chunk.length, 1]),
      masks: this.#runtime.float(masks, [sets.length, vocabularySize]),
      sets: this.#integers(setOf, [chunk.length]),
    };
  }

  /** `targets`: the tokens whose rows of the head's matrix get `target.gradient`. */
  #addTrained(sum: GradientSum, outputs: InferenceSession.OnnxValueMapType, targets: number[] = []): void {
    if (!this.#trained) return;
    for (const { input, offset } of Object.values(this.#trained)) {
      const part = outputs[`${input}.gradient`]?.data as Float32Array;
      sum.add(offset, part);
      freeAll([part]);
    }
    if (targets.length === 0) return;
    const { width } = this.#base.architecture;
    const { offset } = this.#trained.embedding;
    sum.addRows(outputs['target.gradient']?.data as Float32Array, width, (add) => {
      for (const [index, token] of targets.entries()) add(index, offset + token * width);
    });
  }

  #integers(values: readonly number[], dimensions: readonly number[]): Tensor {
    return this.#runtime.integer(BigInt64Array.from(values, BigInt), dimensions);
  }

  #addRows(total: Float32Array, rows: readonly number[], added: Float32Array): void {
    const { width } = this.#base.architecture;
    for (const [index, row] of rows.entries())
      for (let at = 0; at < width; at++)
        total[row * width + at] = (total[row * width + at] as number) + (added[index * width + at] as number);
    freeAll([added]);
  }
}

/** The norm and the matrix of a head in the vector of all weights. */
function trainedHead(architecture: Architecture): Record<'norm' | 'embedding', TrainedTensor> {
  const shapes = trainedShapes(architecture, 'all');
  const find = (name: string) => shapes.find((shape) => shape.name === name) as TensorShape;
  return {
    norm: { ...find(finalNormTensor(architecture)), input: 'norm' },
    embedding: { ...find(headOf(architecture)), input: 'embedding' },
  };
}

const tokensOf = (chunk: readonly PlainDecision[]) => chunk.map(({ token }) => token);

function* inChunks<Item>(items: readonly Item[]): Generator<[start: number, chunk: Item[]]> {
  for (let start = 0; start < items.length; start += headRows)
    yield [start, items.slice(start, start + headRows)];
}
