import { MessageChannel, type MessagePort } from 'node:worker_threads';
import type { TrainingBatch, TrainRequest } from '../../engine.ts';
import type { StepResult } from '../../token-results.ts';
import type { RunningThread } from '../threads/running-thread.ts';
import type { GraphCall, TrainerCall } from '../threads/worker-messages.ts';

/** Tokens in one message: copying it blocks this thread for a few milliseconds. */
const tokensPerMessage = 200_000;

interface TrainingThreads {
  trainer: RunningThread<TrainerCall>;
  /** Run the graphs for the trainer. If there are none, the trainer runs them itself. */
  graphs: readonly RunningThread<GraphCall>[];
  /** The threads among `graphs` that run a teacher with another base model. */
  graphsOfTeacher: (baseModel: string) => readonly RunningThread<GraphCall>[];
}

/**
 * Trains one job on a trainer's threads. An aborted signal rejects it after the current runs of the training graphs; a
 * checkpoint that is being saved is completed. When a thread dies or closes, the job is rejected at once.
 */
export async function train(threads: TrainingThreads, request: TrainRequest): Promise<void> {
  const { signal } = request;
  try {
    signal?.throwIfAborted();
    let job = runJob(threads, request);
    for (const thread of [threads.trainer, ...threads.graphs]) job = thread.whileAlive(job);
    await job;
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  }
}

let jobs = 0;

async function runJob(
  { trainer: thread, graphs, graphsOfTeacher }: TrainingThreads,
  { from, folder, batches, scratchFile, onStep, signal }: TrainRequest,
): Promise<void> {
  const job = jobs++;
  let teacher = from.baseModel;
  try {
    const ports = await Promise.all(graphs.map((graph) => connect(graph, from)));
    await thread.call({ type: 'begin', job, from, graphs: ports }, { transfer: ports });
    for await (const { datums, ...batch } of batches) {
      signal?.throwIfAborted();
      const { baseModel } = batch.reference ?? from;
      if (baseModel !== from.baseModel && baseModel !== teacher) {
        teacher = baseModel;
        const graphs = await Promise.all(
          graphsOfTeacher(teacher).map((graph) => connect(graph, { baseModel, beside: from.baseModel })),
        );
        await thread.call({ type: 'teacher', baseModel, graphs }, { transfer: graphs });
      }
      for (const part of inMessages(datums, tokensPerMessage))
        await thread.call({ type: 'datums', datums: part });
      const { metrics, tokens } = await thread.call<StepResult>(
        { type: 'step', batch, scratchFile },
        { signal },
      );
      onStep(metrics, tokens);
    }
    signal?.throwIfAborted();
    await thread.call({ type: 'save', folder });
  } catch (error) {
    // When a thread has died, the next job may have begun.
    await thread.call({ type: 'abandon', job }).catch(() => undefined);
    throw error;
  }
}

/** Connects a thread that runs graphs with a new port, for one job. */
async function connect(
  thread: RunningThread<GraphCall>,
  { baseModel, beside }: Pick<GraphCall, 'baseModel' | 'beside'>,
): Promise<MessagePort> {
  await thread.ready;
  const { port1, port2 } = new MessageChannel();
  await thread.call({ baseModel, beside, port: port1 }, { transfer: [port1] });
  return port2;
}

/** Splits datums, in order, into messages of at most `tokens` tokens, or of one larger datum. */
export function inMessages(datums: TrainingBatch['datums'], tokens: number): TrainingBatch['datums'][] {
  const messages: TrainingBatch['datums'][] = [];
  let free = 0;
  for (const datum of datums) {
    if (messages.length === 0 || datum.tokens.length > free) {
      messages.push([]);
      free = tokens;
    }
    messages.at(-1)?.push(datum);
    free -= datum.tokens.length;
  }
  return messages;
}
