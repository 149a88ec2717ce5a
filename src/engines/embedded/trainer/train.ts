import type { TrainingBatch, TrainRequest } from '../../engine.ts';
import type { TrainerCall } from '../threads/worker-messages.ts';
import type { RunningThread } from '../threads/worker-thread.ts';

/** Tokens in one message: copying it blocks this thread for a few milliseconds. */
const tokensPerMessage = 200_000;

/**
 * Trains one job on a trainer's thread. An aborted signal rejects it after the current run of the training graphs; a
 * checkpoint that is being saved is completed. When the thread dies or closes, the job is rejected at once.
 */
export async function train(thread: RunningThread<TrainerCall>, request: TrainRequest): Promise<void> {
  const { signal } = request;
  try {
    signal?.throwIfAborted();
    await thread.whileAlive(runJob(thread, request));
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  }
}

async function runJob(
  thread: RunningThread<TrainerCall>,
  { from, folder, batches, onStep, signal }: TrainRequest,
): Promise<void> {
  try {
    await thread.call({ type: 'begin', from });
    for await (const { datums, ...batch } of batches) {
      signal?.throwIfAborted();
      for (const part of inMessages(datums, tokensPerMessage))
        await thread.call({ type: 'datums', datums: part });
      onStep(await thread.call({ type: 'step', batch }, { signal }));
    }
    signal?.throwIfAborted();
    await thread.call({ type: 'save', folder });
  } catch (error) {
    await thread.call({ type: 'abandon' }).catch(() => undefined);
    throw error;
  }
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
