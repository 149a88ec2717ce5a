import { createHash } from 'node:crypto';
import { dirname } from 'node:path';
import type { CallOptions, StreamedChatRequest, WholeChatRequest } from '../client/index.ts';
import type { ChatCompletion, ChatCompletionChunk, ChatCompletionRequest } from '../contract/index.ts';
import { currentTrajectory } from '../trajectory/index.ts';
import { appendLine, makeFolder } from '../util/durable-files.ts';
import { canonicalJson } from '../util/json.ts';
import { cutTornLine } from '../util/json-lines.ts';
import { type OptionNames, requireOptions } from '../util/option-names.ts';
import type { CompletionSource } from './completion-source.ts';

export const recordedCallsFormat = 'martingale.calls';
export const recordedCallsVersion = 1;

/** First line of a file of recorded calls. Each recording that appends to the file adds its own header. */
export interface RecordedCallsHeader {
  format: typeof recordedCallsFormat;
  version: number;
  /** ISO time. */
  recorded: string;
}

/** A model call of a record. */
export interface RecordedRequest {
  /** Without `stream`: a recorded call answers both streamed and unstreamed requests. */
  request: Omit<ChatCompletionRequest, 'stream' | 'stream_options'>;
  /** Seed of the rollout, which distinguishes equal requests of two rollouts; null outside of rollouts. */
  rollout: number | null;
}

/** One answered call: a line of the file, with either `completion` or `chunks`. */
export interface RecordedCallLine extends RecordedRequest {
  /** The `callKey` of the call. */
  key: string;
  /** Index of the call since the header, in the order of the requests. */
  asked: number;
  /** The answer to a request without `stream`. */
  completion?: ChatCompletion;
  /** The streamed answer. The chunks end early if the caller stopped reading. */
  chunks?: ChatCompletionChunk[];
}

export function recordedRequest(request: ChatCompletionRequest): RecordedRequest {
  const { stream: _, stream_options: __, ...rest } = request;
  return { request: rest, rollout: currentTrajectory()?.seed ?? null };
}

/** SHA-256 of a call. The order of fields does not matter, and null fields count as absent. */
export function callKey(call: RecordedRequest): string {
  return createHash('sha256')
    .update(canonicalJson(call, { withoutNull: true }))
    .digest('hex');
}

export interface RecordCallsOptions {
  /** Path of a JSON Lines file. A missing file is created with its folder; an existing file is appended to. */
  file: string;
  /** Answers the calls. */
  completions: CompletionSource;
}

const recordNames = {
  file: 'path',
  completions: true,
} satisfies OptionNames<RecordCallsOptions>;

/**
 * Forwards calls to `completions` and writes each answered call to a file, from which `replayCalls` answers without a
 * model. A call is written before its caller has the whole answer. Failed calls are not written.
 */
export function recordCalls(options: RecordCallsOptions): CompletionSource {
  requireOptions('recordCalls()', options, recordNames, ['file', 'completions']);
  const { file, completions } = options;
  return new RecordedSource(completions, file);
}

class RecordedSource implements CompletionSource {
  readonly #completions: CompletionSource;
  readonly #file: string;
  #requests = 0;
  /** The appends so far: lines are written one at a time, after a header. */
  #appends: Promise<void> | undefined;

  constructor(completions: CompletionSource, file: string) {
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
    const call = recordedRequest(request);
    const line = { key: callKey(call), asked: this.#requests++, ...call };
    if (request.stream) return this.#record(await this.#completions.create(request, options), line);
    const completion = await this.#completions.create(request, options);
    await this.#append({ ...line, completion });
    return completion;
  }

  async *#record(
    source: AsyncIterable<ChatCompletionChunk>,
    line: RecordedCallLine,
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
      // Also runs if the reader stops early.
      if (!hasFailed) await this.#append({ ...line, chunks });
    }
  }

  #append(line: RecordedCallLine): Promise<void> {
    this.#appends ??= this.#begin();
    this.#appends = this.#appends.then(() => appendLine(this.#file, line));
    return this.#appends;
  }

  async #begin(): Promise<void> {
    await makeFolder(dirname(this.#file));
    // A line that a killed process left incomplete can be cut: its answer reached no caller.
    await cutTornLine(this.#file);
    const header: RecordedCallsHeader = {
      format: recordedCallsFormat,
      version: recordedCallsVersion,
      recorded: new Date().toISOString(),
    };
    await appendLine(this.#file, header);
  }
}
