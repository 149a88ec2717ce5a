import { appendFile, mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { CallOptions, StreamedChatRequest, WholeChatRequest } from '../client/index.ts';
import type { ChatCompletion, ChatCompletionChunk } from '../contract/index.ts';
import type { CompletionSource } from './completion-source.ts';
import {
  type AskedCall,
  askedCall,
  callKey,
  type RecordedCallLine,
  type RecordedCallsHeader,
  recordedCallsFormat,
  recordedCallsVersion,
} from './record-calls-line.ts';

export interface RecordCallsOptions {
  /** JSON lines; made with its folder where it does not exist, added to where it does. */
  file: string;
  /** What answers. */
  completions: CompletionSource;
}

/**
 * Answers as `completions` does and writes each call to a file, from which `replayCalls` answers without a model. A
 * call is in the file before its answer has been handed out. Calls that fail are not written.
 */
export function recordCalls({ file, completions }: RecordCallsOptions): CompletionSource {
  return new RecordedSource(completions, new CallsFile(file));
}

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
  create(
    request: WholeChatRequest | StreamedChatRequest,
    options?: CallOptions,
  ): Promise<ChatCompletion | AsyncIterableIterator<ChatCompletionChunk>> {
    const call = { ...askedCall(request), asked: this.#asked++ };
    return request.stream ? this.#stream(request, call, options) : this.#whole(request, call, options);
  }

  async #whole(
    request: WholeChatRequest,
    call: AskedCall & { asked: number },
    options: CallOptions | undefined,
  ): Promise<ChatCompletion> {
    const completion = await this.#completions.create(request, options);
    await this.#file.append({ ...toLine(call), completion });
    return completion;
  }

  async #stream(
    request: StreamedChatRequest,
    call: AskedCall & { asked: number },
    options: CallOptions | undefined,
  ): Promise<AsyncIterableIterator<ChatCompletionChunk>> {
    const chunks = await this.#completions.create(request, options);
    return this.#follow(chunks, call);
  }

  async *#follow(
    source: AsyncIterable<ChatCompletionChunk>,
    call: AskedCall & { asked: number },
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
      // A reader that stops early comes by here too.
      if (!hasFailed) await this.#file.append({ ...toLine(call), chunks });
    }
  }
}

function toLine({ request, rollout, asked }: AskedCall & { asked: number }): RecordedCallLine {
  return { key: callKey({ request, rollout }), asked, rollout, request };
}

/** Appends one at a time; its header is written before the first. */
class CallsFile {
  readonly #path: string;
  #appends: Promise<void> | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  append(line: RecordedCallLine): Promise<void> {
    const written = `${JSON.stringify(line)}\n`;
    this.#appends = (this.#appends ?? this.#begin()).then(() => appendFile(this.#path, written));
    return this.#appends;
  }

  async #begin(): Promise<void> {
    await mkdir(dirname(this.#path), { recursive: true, mode: 0o700 });
    await dropTornLine(this.#path);
    const header: RecordedCallsHeader = {
      format: recordedCallsFormat,
      version: recordedCallsVersion,
      recorded: new Date().toISOString(),
    };
    await appendFile(this.#path, `${JSON.stringify(header)}\n`);
  }
}

/** A line that a killed process left half written: its answer never reached anybody. */
async function dropTornLine(path: string): Promise<void> {
  await using handle = await open(path, 'a+', 0o600);
  const { size } = await handle.stat();
  const chunk = Buffer.alloc(64 * 1024);
  for (let end = size; end > 0; ) {
    const start = Math.max(0, end - chunk.length);
    const { bytesRead } = await handle.read(chunk, 0, end - start, start);
    const lineEnd = chunk.subarray(0, bytesRead).lastIndexOf('\n');
    if (lineEnd >= 0) return handle.truncate(start + lineEnd + 1);
    end = start;
  }
  await handle.truncate(0);
}
