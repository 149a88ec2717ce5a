import type { InferenceSession, Tensor } from 'onnxruntime-common';
import { finalNormTensor } from '../checkpoint/tensors.ts';
import {
  headLogitsBackwardGraph,
  headLogitsGraph,
  headLogprobsGraph,
  headSlopesGraph,
  keptOfHead,
  maskedLogit,
} from '../graphs/head-graphs.ts';
import { sized } from '../graphs/kept-shapes.ts';
import { logitRowsOf } from '../graphs/logit-outputs.ts';
import { type Feeds, freeAll, type Runtime, type Session } from '../runtime.ts';
import type { LogitRows } from '../sampling/distribution.ts';
import type { Architecture, TensorShape } from '../weights/architecture.ts';
import { type GradientSum, type Trained, trainedShapes } from './adapter-vector.ts';
import { type BaseWeights, headOf, partFeeds, type TrainedTensor, weightOf } from './layer-feeds.ts';
import { headRows } from './training-memory.ts';

/** Decisions whose sampling parameters are a temperature and a set of legal tokens: an element of each column for each. */
export interface SoftmaxDecisions {
  /** Index of the state that predicts the token. */
  states: Int32Array;
  tokens: Int32Array;
  /** 0, which is greedy, counts as 1. At least 1e-6 otherwise: smaller ones go through the logits. */
  temperatures: Float32Array;
  /**
   * Returns the legal tokens of a decision, or null when all are. It is called when the decision's chunk runs, because the
   * arrays of all decisions may be too many. Decisions whose arrays are the same object share a mask.
   */
  legal: (index: number) => Int32Array | null;
}

export interface TokenProbabilities {
  /** Log-probability of each decision's token, natural logarithm. */
  logprobs: Float32Array;
  /** Entropy of each decision's distribution, in nats. */
  entropies: Float32Array;
}

/** Where a backward pass adds what it computes. */
interface HeadGradients {
  /** dLoss/dstates, [states, width]. */
  gradient: Float32Array;
  sum: GradientSum;
  signal?: AbortSignal | undefined;
}

/** Derivatives of the loss by the log-probability and by the entropy, one for each decision. */
export interface ProbabilitySlopes {
  logprobs: Float32Array;
  entropies: Float32Array;
}

/** The states before the head [states, width], and what is trained; null for the checkpoint as it is. */
export interface HeadStates {
  states: Float32Array;
  vector: Float32Array | null;
}

type HeadSessions = Record<'logprobs' | 'slopes' | 'logits' | 'logitsBackward', Session> & {
  /** Runs a forward pass that keeps what the backward pass needs; null where that takes too much memory. */
  keeping: { logprobs: Session; slopes: Session } | null;
};

/** The largest vocabulary whose distributions are kept. */
const mostKeptVocabulary = 4096;

/**
 * Runs the head of a checkpoint on the states before it, in chunks of decisions, so that memory does not depend on their
 * number. The backward passes compute the logits again, unless there are few for each decision.
 */
export class HeadRunner {
  readonly #runtime: Runtime;
  readonly #base: BaseWeights;
  /** The checkpoint's own weights. */
  readonly #weights: Feeds;
  /** Decisions of a chunk. */
  readonly #rows: number;
  readonly #trained: Record<'norm' | 'embedding', TrainedTensor> | null;
  readonly #sessions: HeadSessions;

  private constructor(runtime: Runtime, base: BaseWeights, trained: Trained, sessions: HeadSessions) {
    this.#runtime = runtime;
    this.#base = base;
    this.#sessions = sessions;
    const { architecture } = base;
    const { width, vocabularySize } = architecture;
    this.#rows = headRows(architecture);
    this.#weights = {
      norm: runtime.constant(weightOf(base, finalNormTensor(architecture)), [width]),
      embedding: runtime.constant(weightOf(base, headOf(architecture)), [vocabularySize, width]),
    };
    this.#trained = trained === 'all' ? trainedHead(architecture) : null;
  }

  static async create(runtime: Runtime, base: BaseWeights, trained: Trained): Promise<HeadRunner> {
    const { architecture } = base;
    const options = { isFused: runtime.device === 'cpu', trainsHead: trained === 'all' };
    return new HeadRunner(runtime, base, trained, {
      logprobs: await runtime.session(headLogprobsGraph(architecture, options)),
      slopes: await runtime.session(headSlopesGraph(architecture, options)),
      logits: await runtime.session(headLogitsGraph(architecture, options)),
      logitsBackward: await runtime.session(headLogitsBackwardGraph(architecture, options)),
      keeping:
        options.isFused && architecture.vocabularySize <= mostKeptVocabulary
          ? {
              logprobs: await runtime.session(headLogprobsGraph(architecture, { ...options, keeps: true })),
              slopes: await runtime.session(headSlopesGraph(architecture, { ...options, keeps: true })),
            }
          : null,
    });
  }

  /** `tapes`: gets what each chunk keeps for `addSlopes`, where it keeps any. */
  async probabilities(
    states: HeadStates,
    decisions: SoftmaxDecisions,
    { signal, tapes = null }: { signal?: AbortSignal; tapes?: Feeds[] | null } = {},
  ): Promise<TokenProbabilities> {
    const count = decisions.tokens.length;
    const logprobs = new Float32Array(count);
    const entropies = new Float32Array(count);
    for (let start = 0; start < count; start += this.#rows) {
      signal?.throwIfAborted();
      const chunk = chunkOf(decisions, start, start + this.#rows);
      const { masks, sets, ...feeds } = this.#decisionFeeds(states, chunk);
      const keeping = tapes ? this.#sessions.keeping : null;
      const rows = chunk.tokens.length;
      const targets = this.#runtime.integer(chunk.tokens, [rows, 1]);
      const outputs = keeping ? this.#outputs(rows) : {};
      const { logprob, entropy, ...tape } = await (keeping ?? this.#sessions).logprobs.run(
        { ...feeds, masks, sets, targets } as Feeds,
        outputs,
      );
      logprobs.set(logprob?.data as Float32Array, start);
      entropies.set((entropy ?? tape['tape.entropy'])?.data as Float32Array, start);
      freePassing({ masks: masks as Tensor, ...(keeping ? {} : feeds) });
      if (keeping) tapes?.push({ ...feeds, ...tape } as Feeds);
    }
    return { logprobs, entropies };
  }

  /**
   * Adds dLoss/dstates to `gradient` [states, width], and to `sum` the gradient of what is trained of the head. `tapes`: what
   * `probabilities` kept of the same decisions.
   */
  async addSlopes(
    states: HeadStates,
    decisions: SoftmaxDecisions,
    slopes: ProbabilitySlopes,
    { gradient, sum, signal, tapes = [] }: HeadGradients & { tapes?: Feeds[] },
  ): Promise<void> {
    const count = decisions.tokens.length;
    for (let start = 0; start < count; start += this.#rows) {
      signal?.throwIfAborted();
      const end = start + this.#rows;
      const chunk = chunkOf(decisions, start, end);
      const column = (values: Float32Array) => {
        const own = values.subarray(start, end);
        return this.#runtime.float(own, [own.length, 1]);
      };
      const tape = tapes.shift();
      const session = (tape && this.#sessions.keeping?.slopes) ?? this.#sessions.slopes;
      const feeds = tape ?? this.#decisionFeeds(states, chunk);
      const outputs = await session.run({
        ...feeds,
        targets: this.#runtime.integer(chunk.tokens, [chunk.tokens.length]),
        slope: column(slopes.logprobs),
        entropy_slope: column(slopes.entropies),
      });
      freePassing(feeds);
      this.#addStates(gradient, chunk.states, outputs.state_gradient?.data as Float32Array);
      this.#addTrained(sum, outputs, chunk.tokens);
    }
  }

  /** Frees what `probabilities` kept, without a backward pass. */
  end(tapes: Feeds[]): void {
    for (const tape of tapes.splice(0)) freePassing(tape);
  }

  /**
   * The logits of at most `headRows` states, for sampling parameters that the graphs do not know. The caller frees them
   * (`freeAll`).
   */
  async logits(states: HeadStates, wanted: Int32Array): Promise<LogitRows> {
    return logitRowsOf(await this.#sessions.logits.run(this.#stateFeeds(states, wanted)));
  }

  /** As `addSlopes`, from dLoss/dlogits [wanted, vocabulary]. */
  async addLogitsGradient(
    states: HeadStates,
    wanted: Int32Array,
    logitsGradient: Float32Array,
    { gradient, sum }: HeadGradients,
  ): Promise<void> {
    const { vocabularySize } = this.#base.architecture;
    const outputs = await this.#sessions.logitsBackward.run({
      ...this.#stateFeeds(states, wanted),
      logits_gradient: this.#runtime.float(logitsGradient, [wanted.length, vocabularySize]),
    });
    this.#addStates(gradient, wanted, outputs.state_gradient?.data as Float32Array);
    this.#addTrained(sum, outputs);
  }

  async release(): Promise<void> {
    const { keeping, ...sessions } = this.#sessions;
    for (const session of [...Object.values(sessions), ...Object.values(keeping ?? {})])
      await session.release();
  }

  /** Room for what the forward pass keeps of a chunk. */
  #outputs(rows: number): Feeds {
    const shapes = Object.entries(keptOfHead(this.#base.architecture));
    return this.#runtime.outputs(
      shapes.map(([part, shape]) => [`tape.${part}`, sized(shape, { rows })] as const),
    );
  }

  #stateFeeds({ states, vector }: HeadStates, wanted: Int32Array): Feeds {
    const { width } = this.#base.architecture;
    const trained =
      vector && this.#trained ? partFeeds(this.#runtime, Object.values(this.#trained), vector) : {};
    const gathered = new Float32Array(wanted.length * width);
    for (const [index, state] of wanted.entries())
      gathered.set(states.subarray(state * width, (state + 1) * width), index * width);
    return { ...this.#weights, ...trained, state: this.#runtime.float(gathered, [wanted.length, width]) };
  }

  #decisionFeeds(before: HeadStates, { states, tokens, temperatures, legal }: SoftmaxDecisions): Feeds {
    const { vocabularySize } = this.#base.architecture;
    const indices = new Map<Int32Array | null, number>();
    const setOf = new Int32Array(tokens.length);
    for (let index = 0; index < tokens.length; index++) {
      const set = legal(index);
      const known = indices.get(set) ?? indices.size;
      indices.set(set, known);
      setOf[index] = known;
    }
    const masks = new Float32Array(indices.size * vocabularySize);
    for (const [set, index] of indices) {
      if (!set) continue;
      const from = index * vocabularySize;
      masks.fill(maskedLogit, from, from + vocabularySize);
      for (const token of set) masks[from + token] = 0;
    }
    const inverse = temperatures.map((temperature) => 1 / (temperature === 0 ? 1 : temperature));
    return {
      ...this.#stateFeeds(before, states),
      inverse_temperature: this.#runtime.float(inverse, [tokens.length, 1]),
      masks: this.#runtime.float(masks, [indices.size, vocabularySize]),
      sets: this.#runtime.integer(setOf, [tokens.length]),
    };
  }

  /** `targets`: the tokens whose rows of the head's matrix get `target.gradient`. */
  #addTrained(
    sum: GradientSum,
    outputs: InferenceSession.OnnxValueMapType,
    targets: Int32Array = new Int32Array(),
  ): void {
    if (!this.#trained) return;
    const { width } = this.#base.architecture;
    const { offset } = this.#trained.embedding;
    for (const { input, offset: start } of Object.values(this.#trained))
      sum.add(start, outputs[`${input}.gradient`]?.data as Float32Array);
    if (targets.length === 0) return;
    const places = new Int32Array(2 * targets.length);
    for (const [index, token] of targets.entries()) places.set([index, offset + token * width], 2 * index);
    sum.addRows(outputs['target.gradient']?.data as Float32Array, width, places);
  }

  #addStates(total: Float32Array, states: Int32Array, added: Float32Array): void {
    const { width } = this.#base.architecture;
    for (const [index, state] of states.entries())
      for (let at = 0; at < width; at++)
        total[state * width + at] =
          (total[state * width + at] as number) + (added[index * width + at] as number);
    freeAll([added]);
  }
}

/** Frees what belongs to one chunk: its masks, the states that were gathered for it, and what its forward pass kept. */
const freePassing = (feeds: Feeds) =>
  freeAll(
    Object.entries(feeds)
      .filter(([name]) => name === 'masks' || name === 'state' || name.startsWith('tape.'))
      .map(([, { data }]) => data as Float32Array),
  );

/** The norm and the matrix of a head in the vector of all weights. */
function trainedHead(architecture: Architecture): Record<'norm' | 'embedding', TrainedTensor> {
  const shapes = trainedShapes(architecture, 'all');
  const find = (name: string) => shapes.find((shape) => shape.name === name) as TensorShape;
  return {
    norm: { ...find(finalNormTensor(architecture)), input: 'norm' },
    embedding: { ...find(headOf(architecture)), input: 'embedding' },
  };
}

const chunkOf = (decisions: SoftmaxDecisions, start: number, end: number): SoftmaxDecisions => ({
  states: decisions.states.subarray(start, end),
  tokens: decisions.tokens.subarray(start, end),
  temperatures: decisions.temperatures.subarray(start, end),
  legal: (index) => decisions.legal(start + index),
});
