import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { untilAborted } from '../../util/deadline.ts';
import { sumOf } from '../../util/sums.ts';
import type { TrainingBatch, TrainRequest } from '../engine.ts';
import { EngineError } from '../engine.ts';
import { type StepResult, TokenResults } from '../token-results.ts';
import { type Adapter, type Adapters, isLoss } from './adapters.ts';
import { TinkerError } from './connection.ts';
import type { TinkerApi } from './tinker-api.ts';
import type { TinkerDatum } from './tinker-protobuf.ts';
import { lossOf, type Reduction, sequencesOf } from './train-step.ts';

interface Training {
  api: TinkerApi;
  adapters: Adapters;
  reduction: Reduction;
  vocabularySize: number;
  contextLength: number;
  /** Longest wait for a server that is away, in milliseconds. Default 3,600,000. */
  longestAwayMs?: number;
}

interface Job extends Pick<TrainRequest, 'batches' | 'onStep' | 'onWait' | 'signal'> {
  /** Path on the server of the checkpoint to begin with; null for the base model. */
  from: string | null;
  /** Path on the server of the weights that a batch's KL penalty compares with. */
  referenceOf: (batch: TrainingBatch) => Promise<string | null>;
}

/** Adam's decays and epsilon, as for local models; the weights do not decay. */
const adam = { beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0 };

/**
 * Tokens and sequences in one pass. The hosted service takes at most 1024 sequences and 5 MB; a token needs 24 bytes.
 * The server samples between passes, so short passes also keep sampling from waiting long.
 */
const tokensPerPass = 65_536;
const sequencesPerPass = 1024;

const pauseMs = 500;

/** Equals the time that a client waits for a job by default. */
const defaultLongestAwayMs = 3_600_000;

/** Times in a row that a job starts again because the server answers, but has lost the adapter. */
const maxLosses = 5;

/**
 * Trains on the server and returns the path there of the new checkpoint, which is durable by then. A job always begins at
 * its checkpoint, in an adapter of its own: when the server goes away or loses the adapter, the job waits for it and
 * begins again with the batches it has had, so that no step counts twice.
 */
export async function train(training: Training, job: Job): Promise<string> {
  const taken: TrainingBatch[] = [];
  const coming = batchesOf(job.batches);
  let reported = 0;
  let losses = 0;
  /** Since when the server has been away. */
  let awaySince: number | undefined;
  const { longestAwayMs = defaultLongestAwayMs } = training;
  for (;;) {
    job.signal?.throwIfAborted();
    let adapter: Adapter | undefined;
    try {
      adapter = await training.adapters.open(job.from, {
        optimizer: true,
        onWait: job.onWait,
        signal: job.signal,
      });
      for (let step = 0; ; step++) {
        const batch = taken[step] ?? (await untilAborted(coming.next(), job.signal)).value;
        if (!batch) break;
        taken[step] = batch;
        const { metrics, tokens } = await trainStep(training, adapter, batch, job);
        awaySince = undefined;
        if (step < reported) continue;
        reported++;
        job.onStep(metrics, tokens);
      }
      const saved = await training.api.operation(
        'save_weights',
        { model_id: adapter.id, path: `martingale-${randomUUID()}`, seq_id: adapter.sequence++ },
        { repeat: 'never', signal: job.signal },
      );
      if (typeof saved.path !== 'string')
        throw new EngineError('engine_unsupported', 'The training server named no path of the checkpoint.');
      training.adapters.keep(saved.path, adapter);
      adapter = undefined;
      return saved.path;
    } catch (error) {
      job.signal?.throwIfAborted();
      if (!isServerLost(error) || losses >= maxLosses) throw error;
      losses = error.code === 'engine_away' ? 0 : losses + 1;
      if (awaySince === undefined)
        job.onWait?.(`the training server, which is away or began anew (${error.message})`);
      awaySince ??= performance.now();
      if (performance.now() - awaySince > longestAwayMs)
        throw new EngineError(
          'engine_away',
          `The training server has been away for ${longestAwayMs / 60_000} minutes: ${error.message} Send the job again once it is back.`,
          { cause: error },
        );
      await sleep(pauseMs, undefined, { signal: job.signal });
    } finally {
      if (adapter) void training.adapters.close(adapter);
    }
  }
}

async function* batchesOf(batches: TrainRequest['batches']): AsyncGenerator<TrainingBatch, undefined> {
  yield* batches;
  return undefined;
}

async function trainStep(
  { api, adapters, reduction, ...limits }: Training,
  adapter: Adapter,
  batch: TrainingBatch,
  { referenceOf, signal }: Job,
): Promise<StepResult> {
  const started = performance.now();
  const { loss, learningRate } = batch;
  const sequences = sequencesOf(batch, limits);
  const data = sequences.map(({ datum }) => datum);
  const forward = (model: Adapter) => passes(api, model, data, { isForwardOnly: true, signal });
  const logprobs = await forward(adapter);
  const hasPenalty = loss.type !== 'cross_entropy' && loss.klPenalty !== null;
  const reference = hasPenalty ? await adapters.withWeights(await referenceOf(batch), forward, signal) : null;
  const tokens = loss.type === 'cross_entropy' ? undefined : new TokenResults(batch.datums);
  const step = lossOf(sequences, logprobs, { loss, reference, reduction, tokens });
  await passes(api, adapter, step.data, { isForwardOnly: false, signal });
  const { metrics } = await api.operation(
    'optim_step',
    {
      model_id: adapter.id,
      adam_params: { learning_rate: learningRate, ...adam },
      seq_id: adapter.sequence++,
    },
    { repeat: 'never', signal },
  );
  const count = sumOf(data, (datum) => datum.tokens.length);
  return {
    metrics: {
      ...step.metrics,
      ...gradientNormOf(metrics),
      learning_rate: learningRate,
      tokens_per_second: (count * 1000) / (performance.now() - started),
    },
    tokens: tokens?.all(),
  };
}

/** The norm of a step's gradient, if the server told it. @throws EngineError (`gradient_not_finite`) */
export function gradientNormOf(metrics: unknown): { grad_norm?: number } {
  const found = Object.entries(Object(metrics)).find(([name]) => name.endsWith('grad_norm'));
  if (!found) return {};
  const norm = Number(found[1]);
  if (Number.isFinite(norm)) return { grad_norm: norm };
  throw new EngineError('gradient_not_finite', `The gradient's norm is ${norm}. Lower the learning rate.`);
}

/** Runs sequences in requests of bounded size; returns the log-probabilities of their targets. */
async function passes(
  api: TinkerApi,
  adapter: Adapter,
  data: readonly TinkerDatum[],
  { isForwardOnly, signal }: { isForwardOnly: boolean; signal: AbortSignal | undefined },
): Promise<Float32Array[]> {
  const logprobs: Float32Array[] = [];
  const loss = isForwardOnly ? 'cross_entropy' : 'importance_sampling';
  for (let from = 0; from < data.length; ) {
    let to = from;
    let tokens = 0;
    do tokens += data[to++]?.tokens.length ?? 0;
    while (
      to < data.length &&
      to - from < sequencesPerPass &&
      tokens + (data[to]?.tokens.length ?? 0) <= tokensPerPass
    );
    const sequence = adapter.sequence++;
    logprobs.push(
      ...(await api.pass(adapter.id, data.slice(from, to), { loss, sequence, isForwardOnly, signal })),
    );
    from = to;
  }
  return logprobs;
}

/** Whether the server is away, or was and has lost its adapters. */
const isServerLost = (error: unknown): error is TinkerError =>
  error instanceof TinkerError && (error.code === 'engine_away' || isLoss(error));
