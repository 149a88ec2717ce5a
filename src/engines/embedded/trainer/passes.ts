import { gradientName } from '../graphs/backward-graph.ts';
import type { GradientSum } from '../lora/adapter-vector.ts';
import { freeAll } from '../runtime.ts';
import type { LogitRows } from '../sampling/distribution.ts';
import { type Architecture, isLookup, tensorShapes } from '../weights/architecture.ts';
import { type BatchLoss, logprobOf } from './batch-loss.ts';
import type { Gradients, GraphRunner } from './graph-runner.ts';
import type { BatchTokens, MicroBatch } from './micro-batches.ts';

/** Weights of a tiny model, and what runs the graphs on them. */
interface RunningModel {
  baseModel: string;
  architecture: Architecture;
  /** The flat parameter vector: see `shareWeights`. */
  weights: Float32Array;
  /** They share the micro-batches; each runs on its own core. */
  runners: readonly GraphRunner[];
  /** When it is aborted, no further run starts. */
  signal: AbortSignal;
}

/** The log-probabilities of all decisions, in the order of the micro-batches. Runs only the forward pass. */
export async function logprobsUnder(model: RunningModel, batches: readonly MicroBatch[]): Promise<number[]> {
  const logprobs: number[] = [];
  const passes = inOrder(batches, aheadOf(model), async (batch, index) => {
    return { batch, logits: await forward(model, batch, index, null) };
  });
  for await (const { batch, logits } of passes) {
    for (const { decision, row } of batch.decisions.flat())
      logprobs.push(logprobOf(decision.distribution(logits, row), decision.token));
    freeAll(Object.values(logits));
  }
  return logprobs;
}

/**
 * Adds the gradient of a batch's loss to a sum. Losses and gradients are added up in the order of the micro-batches, so
 * that the sum has the same bits on any number of runners.
 */
export async function addGradient(
  model: RunningModel,
  batches: readonly MicroBatch[],
  loss: BatchLoss,
  sum: GradientSum,
): Promise<void> {
  const { architecture } = model;
  const ahead = aheadOf(model);
  const forwardPasses = inOrder(batches, ahead, async (batch, index) => {
    return { batch, logits: await forward(model, batch, index, index) };
  });
  const backwardPasses = inOrder(forwardPasses, ahead, async ({ batch, logits }, index) => {
    model.signal.throwIfAborted();
    const slopes = loss.add(batch.decisions, logits);
    freeAll(Object.values(logits));
    return { batch, gradients: await runnerOf(model, index).backward(index, slopes) };
  });
  for await (const { batch, gradients } of backwardPasses) {
    addOutputs(sum, architecture, batch, gradients);
    freeAll(Object.values(gradients));
  }
}

/**
 * Adds the gradient of a micro-batch, the outputs of the backward graph, to a sum in the layout of the parameters. The
 * rows of the looked-up tables are added here, one after another, because many positions share a token: their sum must
 * neither lose additions nor depend on the number of threads.
 */
export function addOutputs(
  sum: GradientSum,
  architecture: Architecture,
  { sequences, time }: Pick<BatchTokens, 'sequences' | 'time'>,
  outputs: Gradients,
): void {
  const { width } = architecture;
  const tables: { offset: number; distance: number }[] = [];
  for (const { name, offset } of tensorShapes(architecture))
    if (!isLookup(name)) sum.add(offset, outputs[gradientName(name)] as Float32Array);
    else if (name === 'token_embedding') tables.push({ offset, distance: 0 });
    else tables.push({ offset, distance: Number(name.slice(name.lastIndexOf('.') + 1)) });
  sum.addRows(outputs.embedding_gradient as Float32Array, width, (add) => {
    for (const { offset, distance } of tables)
      for (const [sequence, { tokens }] of sequences.entries())
        for (let at = 0; at < tokens.length; at++) {
          // Token 0 precedes the sequence, as in the graphs.
          const token = at >= distance ? (tokens[at - distance] as number) : 0;
          add(sequence * time + at, offset + token * width);
        }
  });
}

function runnerOf({ runners }: RunningModel, index: number): GraphRunner {
  return runners[index % runners.length] as GraphRunner;
}

async function forward(
  model: RunningModel,
  { sequences, time, picks }: MicroBatch,
  index: number,
  keepAs: number | null,
): Promise<LogitRows> {
  // Lets a cancellation arrive: not every runtime leaves the event loop free during a run.
  await new Promise(setImmediate);
  model.signal.throwIfAborted();
  const { baseModel, weights } = model;
  return runnerOf(model, index).forward({ baseModel, weights, batch: { sequences, time, picks }, keepAs });
}

/** The same weights in memory that the threads of several runners can read. */
export function shareWeights(weights: Float32Array): Float32Array {
  const shared = new Float32Array(new SharedArrayBuffer(weights.byteLength));
  shared.set(weights);
  return shared;
}

/** Runs that wait while others are used, so that a runner in another thread always has one to go on with. */
function aheadOf({ runners }: RunningModel): number {
  return runners.length > 1 ? runners.length : 0;
}

/**
 * Yields the results of `start` in order, while it has started up to `ahead` more. Once it has ended, in whatever way,
 * nothing that it started is running.
 */
async function* inOrder<Item, Result>(
  items: Iterable<Item> | AsyncIterable<Item>,
  ahead: number,
  start: (item: Item, index: number) => Promise<Result>,
): AsyncGenerator<Result> {
  const started: Promise<Result>[] = [];
  let count = 0;
  try {
    for await (const item of items) {
      const result = start(item, count++);
      // It is awaited below, perhaps only after another one has failed.
      result.catch(() => undefined);
      started.push(result);
      if (started.length > ahead) yield (await started.shift()) as Result;
    }
    while (started.length > 0) yield (await started.shift()) as Result;
  } finally {
    await Promise.allSettled(started);
  }
}
