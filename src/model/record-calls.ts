import { createHash } from 'node:crypto';
import { dirname } from 'node:path';
import type { CallOptions, StreamedChatRequest, WholeChatRequest } from '../client/index.ts';
import type { ChatCompletion, ChatCompletionChunk, ChatCompletionRequest } from '../contract/index.ts';
import { currentTrajectory } from '../trajectory/index.ts';
import { appendLine, makeFolder } from '../util/durable-files.ts';
import { canonicalJson } from '../util/json.ts';
import { cutTornLine } from '../util/json-lines.ts';
import type { CompletionSource } from './completion-source.ts';

export const recordedCallsFormat = 'martingale.calls';
export const recordedCallsVersion = 1;

/** First line of a file of recorded calls. Each recording that appends to the file begins with another one. */
export interface RecordedCallsHeader {
  format: typeof recordedCallsFormat;
  version: number;
  /** ISO time. */
  recorded: string;
}

/** A model call of a record. */
export interface AskedCall {
  /** Without `stream`: a call answers a request for a stream and a request for the whole completion alike. */
  request: Omit<ChatCompletionRequest, 'stream' | 'stream_options'>;
  /** Seed of the rollout that made the call, which tells apart equal requests of two rollouts; null outside of rollouts. */
  rollout: number | null;
}

/** One answered call: a line of the file, with either `completion` or `chunks`. */
export interface RecordedCallLine extends AskedCall {
  /** The `callKey` of the call. */
  key: string;
  /** Number of the call in the order of the requests since the header, from 0. */
  asked: number;
  /** The answer to a request without `stream`. */
  completion?: ChatCompletion;
  /** The streamed answer. The chunks end early where the caller stopped reading. */
  chunks?: ChatCompletionChunk[];
}

export function askedCall(request: ChatCompletionRequest): AskedCall {
  const { stream: _, stream_options: __, ...rest } = request;
  return { request: rest, rollout: currentTrajectory()?.seed ?? null };
}

/** SHA-256 of a call. The order of fields does not matter, and null fields count as absent. */
export function callKey(call: AskedCall): string {
  return createHash('sha256')
    .update(canonicalJson(call, { withoutNull: true }))
    .digest('hex');
}

export interface RecordCallsOptions {
  /** Path of a file of JSON lines. It is created with its folder if missing; an existing file is appended to. */
  file: string;
  /** Answers the calls. */
  completions: CompletionSource;
}

/**
 * Answers as `completions` does and writes each call to a file, from which `replayCalls` answers without a model. A
 * call is in the file before its caller has the whole answer. Calls that fail are not written.
 */
export function recordCalls({ file, completions }: RecordCallsOptions): CompletionSource {
  return new RecordedSource(completions, new CallsFile(file));
}

type NumberedCall = AskedCall & { asked: number };

class RecordedSource implements CompletionSource {
  readonly #completions: CompletionSource;
  readonly #file: CallsFile;
  #asked = 0;

  constructor(completions: CompletionSource, file: CallsFile) {
    this.#completions = completions;
    this.#file = file;
  }

  create(request: WholeChatRequest, options?: CallOptions): Promise<ChatCompletion>;
  create(
    request: StreamedChatRequest,
    options?: CallOptions,
  ): Promise<AsyncIterableIterator<ChatCompletionChunk>>;
  async create(
    request: WholeChatRequest | StreamedChatRequest,
    options?: CallOptions,
  ): Promise<ChatCompletion | AsyncIterableIterator<ChatCompletionChunk>> {
    const call = { ...askedCall(request), asked: this.#asked++ };
    if (request.stream) return this.#record(await this.#completions.create(request, options), call);
    const completion = await this.#completions.create(request, options);
    await this.#file.append({ ...toLine(call), completion });
    return completion;
  }

  async *#record(
    source: AsyncIterable<ChatCompletionChunk>,
    call: NumberedCall,
  ): AsyncGenerator<ChatCompletionChunk, undefined> {
    const chunks: ChatCompletionChunk[] = [];
    let hasFailed = false;
    try {
      for await (const chunk of source) {
        chunks.push(chunk);
        yield chunk;
      }
    } catch (error) {
      hasFailed = true;
      throw error;
    } finally {
      // Runs for a reader that stops early too.
      if (!hasFailed) await this.#file.append({ ...toLine(call), chunks });
    }
  }
}

function toLine({ request, rollout, asked }: NumberedCall): RecordedCallLine {
  return { key: callKey({ request, rollout }), asked, rollout, request };
}

/** Appends lines one at a time, after a header. */
class CallsFile {
  readonly #path: string;
  #appends: Promise<void> | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  append(line: RecordedCallLine): Promise<void> {
    this.#appends = (this.#appends ?? this.#begin()).then(() =>
      appendLine(this.#path, line, { durable: false }),
    );
    return this.#appends;
  }

  async #begin(): Promise<void> {
    await makeFolder(dirname(this.#path));
    // The answer of a line that a killed process left half written has reached no caller.
    await cutTornLine(this.#path);
    const header: RecordedCallsHeader = {
      format: recordedCallsFormat,
      version: recordedCallsVersion,
      recorded: new Date().toISOString(),
    };
    await appendLine(this.#path, header, { durable: false });
  }
}
