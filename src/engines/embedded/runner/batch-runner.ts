import { forgetLent } from '../onnx/output-memory.ts';
import type { Feeds, Runtime } from '../runtime.ts';
import type { LogitRows } from '../sampling/distribution.ts';
import { kindOf } from '../weights/architecture.ts';
import type { GradientSum, Trained } from './adapter-vector.ts';
import {
  HeadRunner,
  type HeadStates,
  type ProbabilitySlopes,
  type SoftmaxDecisions,
  type TokenProbabilities,
} from './head-runner.ts';
import type { BaseWeights } from './layer-feeds.ts';
import { type LayerPass, LayerRunner } from './layer-runner.ts';
import { inSelection, type Selection, selectStates } from './selection.ts';
import type { PaddedTokens } from './shared-prefixes.ts';

/** A micro-batch, as far as graphs need to know it. States are numbered row * time + position. */
export interface BatchRun {
  tokens: PaddedTokens;
  /** What is trained, flat, in memory that threads share; null runs the checkpoint as it is. */
  vector: Float32Array | null;
  /** See `PassOptions`. */
  keptLayers: number;
  /** Decisions whose probabilities the graphs compute. */
  softmax: SoftmaxDecisions;
  /** States whose logits are asked for. */
  others: Int32Array;
}

/** Runs the graphs of a model for one job. A forward pass is kept under a number until its backward pass, or `end`. */
export interface BatchRunner {
  /** Resolves with what the softmax decisions have. An aborted signal rejects it at the next layer. */
  forward(pass: number, run: BatchRun, signal: AbortSignal): Promise<TokenProbabilities>;
  /** The logits of some of the other states, at most `headRows`. The caller frees them (`freeAll`). */
  logits(pass: number, states: Int32Array): Promise<LogitRows>;
  /** Takes dLoss/dlogits [states, vocabulary] of states whose logits were asked for. */
  addLogitsGradient(
    pass: number,
    states: Int32Array,
    gradient: Float32Array,
    sum: GradientSum,
  ): Promise<void>;
  /** Adds what is left of the gradient of a pass to the sum, and ends the pass. `slopes`: of the softmax decisions. */
  backward(pass: number, slopes: ProbabilitySlopes, sum: GradientSum): Promise<void>;
  /** Ends a pass that has no backward pass. */
  end(pass: number): void;
  /** Ends the job. Nothing may be called after it. */
  close(): void;
}

/** Only the last layer of a model computes selected states alone, which is much only where there are few layers. */
const mostSelectingLayers = 8;

interface Pass {
  layers: LayerPass;
  states: HeadStates;
  softmax: SoftmaxDecisions;
  selection: Selection | null;
  /** What the head keeps for the backward pass. */
  tapes: Feeds[];
  /** dLoss/dstates before the head. */
  gradient: Float32Array;
  signal: AbortSignal;
}

/** Runs a model's graphs in this thread. */
export class BatchGraphs implements BatchRunner {
  readonly #layers: LayerRunner;
  readonly #head: HeadRunner;
  readonly #selects: boolean;
  readonly #passes = new Map<number, Pass>();

  private constructor(layers: LayerRunner, head: HeadRunner, selects: boolean) {
    this.#layers = layers;
    this.#head = head;
    this.#selects = selects;
  }

  static async create(runtime: Runtime, base: BaseWeights, trained: Trained): Promise<BatchGraphs> {
    const { architecture } = base;
    const selects =
      runtime.device === 'cpu' &&
      architecture.layers <= mostSelectingLayers &&
      kindOf(architecture, architecture.layers - 1) === 'attention';
    const layers = new LayerRunner(runtime, base, trained);
    return new BatchGraphs(layers, await HeadRunner.create(runtime, base, trained), selects);
  }

  async forward(
    pass: number,
    { tokens, vector, keptLayers, softmax, others }: BatchRun,
    signal: AbortSignal,
  ): Promise<TokenProbabilities> {
    const selection = this.#selects
      ? selectStates([softmax.states, others], tokens.sequences.length, tokens.time)
      : null;
    const layers = await this.#layers.forward(tokens, vector, { keptLayers, selection, signal });
    const states = { states: layers.states.at(-1)?.data as Float32Array, vector };
    const own = { ...softmax, states: selection ? inSelection(selection, softmax.states) : softmax.states };
    const gradient = new Float32Array(states.states.length);
    const tapes: Feeds[] = [];
    this.#passes.set(pass, { layers, states, softmax: own, selection, tapes, gradient, signal });
    return await this.#head.probabilities(states, own, { signal, tapes: keptLayers > 0 ? tapes : null });
  }

  logits(pass: number, states: Int32Array): Promise<LogitRows> {
    const { states: before, selection } = this.#pass(pass);
    return this.#head.logits(before, selection ? inSelection(selection, states) : states);
  }

  async addLogitsGradient(
    pass: number,
    states: Int32Array,
    logitsGradient: Float32Array,
    sum: GradientSum,
  ): Promise<void> {
    const { states: before, selection, gradient } = this.#pass(pass);
    const own = selection ? inSelection(selection, states) : states;
    await this.#head.addLogitsGradient(before, own, logitsGradient, { gradient, sum });
  }

  async backward(pass: number, slopes: ProbabilitySlopes, sum: GradientSum): Promise<void> {
    const { layers, states, softmax, tapes, gradient, signal } = this.#pass(pass);
    this.#passes.delete(pass);
    await this.#head.addSlopes(states, softmax, slopes, { gradient, sum, signal, tapes });
    await this.#layers.backward(layers, gradient, sum);
  }

  end(pass: number): void {
    const ended = this.#passes.get(pass);
    this.#passes.delete(pass);
    if (!ended) return;
    this.#layers.end(ended.layers);
    this.#head.end(ended.tapes);
  }

  close(): void {
    this.#passes.clear();
    forgetLent();
  }

  /** Releases the graphs. Nothing may be running. */
  async release(): Promise<void> {
    await this.#layers.release();
    await this.#head.release();
  }

  #pass(number: number): Pass {
    const pass = this.#passes.get(number);
    if (!pass) throw new Error(`no forward pass is kept as ${number}`);
    return pass;
  }
}
