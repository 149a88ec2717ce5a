import type { CallOptions, StreamedChatRequest, WholeChatRequest } from '../client/index.ts';
import type { ChatCompletion, ChatCompletionChunk } from '../contract/index.ts';
import type { CompletionSource } from './completion-source.ts';
import { CallNotRecordedError } from './record-calls-errors.ts';
import { type AskedCall, askedCall, callKey, type RecordedCallLine } from './record-calls-line.ts';
import { toChunks, toCompletion } from './replay-calls-chunks.ts';
import { readRecordedCalls } from './replay-calls-file.ts';
import { describeNearest } from './replay-calls-nearest.ts';

/** Answers from a record. Each recorded call is given out once; those that are alike, in the order of asking. */
export interface ReplayedCalls extends CompletionSource {
  /** Names of the models in the record, in the order in which they were first asked. */
  readonly models: readonly string[];
  /** What has been recorded and not asked for yet. */
  unused(): AskedCall[];
}

/**
 * Answers chat requests from the file that `recordCalls` wrote: no model, key or network. A call is found by its
 * whole request, the model's name and the seed included, and by the seed of its rollout, so rollouts may run in any
 * order and number at a time. A call may be asked for as a stream that was recorded whole, and the other way round.
 * What was not recorded is refused with the nearest that was (CallNotRecordedError).
 *
 * @throws RecordedCallsError for a file that is not one.
 */
export async function replayCalls({ file }: { file: string }): Promise<ReplayedCalls> {
  return new Replay(await readRecordedCalls(file));
}

class Replay implements ReplayedCalls {
  readonly models: readonly string[];
  readonly #calls: readonly RecordedCallLine[];
  /** What is left of each key, in order. */
  readonly #left: Map<string, RecordedCallLine[]>;

  constructor(calls: readonly RecordedCallLine[]) {
    this.#calls = calls;
    this.#left = Map.groupBy(calls, ({ key }) => key);
    this.models = [...new Set(calls.flatMap(({ request }) => request.model ?? []))];
  }

  unused(): AskedCall[] {
    const left = new Set([...this.#left.values()].flat());
    return this.#calls.filter((call) => left.has(call)).map(({ request, rollout }) => ({ request, rollout }));
  }

  create(request: WholeChatRequest, options?: CallOptions): Promise<ChatCompletion>;
  create(
    request: StreamedChatRequest,
    options?: CallOptions,
  ): Promise<AsyncIterableIterator<ChatCompletionChunk>>;
  async create(
    request: WholeChatRequest | StreamedChatRequest,
    { signal }: CallOptions = {},
  ): Promise<ChatCompletion | AsyncIterableIterator<ChatCompletionChunk>> {
    signal?.throwIfAborted();
    const { completion, chunks } = this.#take(askedCall(request));
    // Whoever reads it may write to it; the next reader of the file must not see that.
    if (request.stream) return readOut(chunks ?? (completion ? toChunks(structuredClone(completion)) : []));
    return structuredClone(completion) ?? toCompletion(structuredClone(chunks ?? []));
  }

  #take(call: AskedCall): RecordedCallLine {
    const key = callKey(call);
    const taken = this.#left.get(key)?.shift();
    if (taken) return taken;
    const times = this.#calls.filter((recorded) => recorded.key === key).length;
    throw new CallNotRecordedError(
      times > 0
        ? `it was recorded ${times === 1 ? 'once' : `${times} times`} and is asked for once more.`
        : describeNearest(call, this.#calls),
    );
  }
}

async function* readOut(
  chunks: readonly ChatCompletionChunk[],
): AsyncGenerator<ChatCompletionChunk, undefined> {
  for (const chunk of chunks) yield structuredClone(chunk);
}
