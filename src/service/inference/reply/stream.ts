import type { ChatCompletionChunk } from '../../../contract/index.ts';
import type { Generation, GenerationDelta } from '../../../engines/engine.ts';
import type { ReplyDelta, ReplyParser } from '../../../language/chat/reply-parser.ts';
import { type PreparedChat, tierOf, toUsage } from '../chat.ts';
import { reportLogprobs, reportSampling } from './token-report.ts';

type ChunkChoice = ChatCompletionChunk['choices'][number];

/**
 * Samples all choices of a request and streams the answer: the role, the deltas, the finish reason, and
 * the usage if requested. Aborts the sampling if the consumer stops early.
 */
export async function* stream(chat: PreparedChat, signal: AbortSignal): AsyncGenerator<ChatCompletionChunk> {
  const leave = new AbortController();
  const either = AbortSignal.any([signal, leave.signal]);
  const { id, created, model, fingerprint, request } = chat;
  const { include_usage: last, continuous_usage_stats: always } = request.stream_options ?? {};
  let completionTokens = 0;
  let cachedTokens: number | null = null;
  const usage = () => toUsage(chat, completionTokens, cachedTokens);
  const chunkOf = (choices: ChunkChoice[]): ChatCompletionChunk => ({
    id,
    object: 'chat.completion.chunk',
    created,
    model: model.pinnedName,
    ...tierOf(chat),
    system_fingerprint: fingerprint,
    choices,
    ...(always ? { usage: usage() } : last ? { usage: null } : {}),
  });
  try {
    const updates = new ReplyUpdates(chat, either);
    const first = {
      ...(chat.scorePrompt ? { prompt_logprobs: await chat.scorePrompt(either) } : {}),
      ...(request.return_token_ids ? { prompt_token_ids: chat.prompt.tokens } : {}),
    };
    const parsers = new Map<number, ReplyParser>();
    /** Choices with at least one token. */
    const started = new Set<number>();
    const begin = (index: number): ChatCompletionChunk[] => {
      const extra = parsers.size === 0 ? first : {};
      parsers.set(index, chat.parser());
      return beginChoices(chat, index).map((choice, position) => ({
        ...chunkOf([choice]),
        ...(position === 0 ? extra : {}),
      }));
    };
    // A beam search may find fewer replies than requested.
    if (!chat.search) for (let index = 0; index < chat.choices; index++) yield* begin(index);
    for await (const update of updates.all()) {
      if (!parsers.has(update.index)) yield* begin(update.index);
      const parser = parsers.get(update.index);
      if (!parser) continue;
      const choices =
        update.type === 'delta'
          ? deltaChoices(chat, update, parser.push(update.delta.tokens), {
              isFirst: !started.has(update.index),
            })
          : endChoices(chat, update.index, parser, update.generation);
      if (update.type === 'delta') {
        completionTokens += update.delta.tokens.length;
        if (update.delta.tokens.length > 0) started.add(update.index);
      } else cachedTokens = Math.max(cachedTokens ?? 0, update.generation.cachedTokens);
      for (const choice of choices) yield chunkOf([choice]);
    }
    if (last) yield { ...chunkOf([]), usage: usage() };
  } finally {
    leave.abort();
  }
}

/** The role, then the text that `echo` puts before the reply. */
function beginChoices({ echo }: PreparedChat, index: number): ChunkChoice[] {
  const role: ChunkChoice = {
    index,
    delta: { role: 'assistant', content: '', refusal: null },
    finish_reason: null,
  };
  return echo === '' ? [role] : [role, { index, delta: { content: echo }, finish_reason: null }];
}

/**
 * One chunk per piece. Only the first carries the tokens and log-probabilities, so that none is sent
 * twice.
 */
function deltaChoices(
  chat: PreparedChat,
  { index, delta: tokens }: { index: number; delta: GenerationDelta },
  reply: ReplyDelta,
  { isFirst }: { isFirst: boolean },
): ChunkChoice[] {
  const { report } = chat;
  const pieces = toDeltas(reply);
  if (pieces.length === 0 && (report.logprobs || report.ids === 'choice')) pieces.push({});
  return pieces.map((delta, position) => ({
    index,
    delta,
    ...(position === 0 && report.logprobs ? { logprobs: reportLogprobs(chat, tokens, { isFirst }) } : {}),
    ...(position === 0 && report.ids === 'choice' ? { token_ids: tokens.tokens } : {}),
    finish_reason: null,
  }));
}

function endChoices(
  chat: PreparedChat,
  index: number,
  parser: ReplyParser,
  generation: Generation,
): ChunkChoice[] {
  const rest = toDeltas(parser.end(generation)).map(
    (delta): ChunkChoice => ({ index, delta, finish_reason: null }),
  );
  return [
    ...rest,
    {
      index,
      delta: {},
      finish_reason: parser.finishReason(generation),
      stop_reason: generation.stop,
      ...reportSampling(chat, generation.tokens),
    },
  ];
}

function toDeltas({ reasoning, content, calls }: ReplyDelta): ChunkChoice['delta'][] {
  const deltas: ChunkChoice['delta'][] = [];
  if (reasoning !== '') deltas.push({ reasoning, reasoning_content: reasoning });
  if (content !== '') deltas.push({ content });
  for (const { index, id, name, arguments: text } of calls)
    deltas.push({
      tool_calls: [
        id === undefined
          ? { index, function: { arguments: text } }
          : { index, id, type: 'function', function: { name: name ?? '', arguments: text } },
      ],
    });
  return deltas;
}

/** An update of one choice. */
type ReplyUpdate =
  | { type: 'delta'; index: number; delta: GenerationDelta }
  | { type: 'end'; index: number; generation: Generation };

/**
 * Samples the choices of a request and buffers their updates until they are read. Unread deltas of a
 * choice are merged, so a slow reader costs no more memory than the tokens.
 */
export class ReplyUpdates {
  /** Unread deltas by choice, oldest first. */
  readonly #waiting = new Map<number, GenerationDelta>();
  readonly #ended: { index: number; generation: Generation }[] = [];
  #failure: { error: unknown } | null = null;
  /** Number of choices that have not ended. */
  #open: number;
  #wake: () => void = () => {};

  constructor(chat: Pick<PreparedChat, 'choices' | 'generate' | 'search'>, signal: AbortSignal) {
    this.#open = chat.choices;
    const fail = (error: unknown) => {
      this.#failure = { error };
      this.#wake();
    };
    if (chat.search) {
      chat.search(signal).then((found) => {
        this.#open = found.length;
        for (const [index, generation] of found.entries()) this.#finish(index, generation, 0);
        this.#wake();
      }, fail);
      return;
    }
    for (let index = 0; index < chat.choices; index++) {
      let sent = 0;
      chat
        .generate(index, signal, (delta) => {
          sent += delta.tokens.length;
          this.#add(index, delta);
          this.#wake();
        })
        .then((generation) => {
          this.#finish(index, generation, sent);
          this.#wake();
        }, fail);
    }
  }

  async *all(): AsyncGenerator<ReplyUpdate> {
    for (;;) {
      const next = this.#take();
      if (next) {
        yield next;
        continue;
      }
      if (this.#failure) throw this.#failure.error;
      if (this.#open === 0) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #take(): ReplyUpdate | undefined {
    for (const [index, delta] of this.#waiting) {
      this.#waiting.delete(index);
      return { type: 'delta', index, delta };
    }
    const ended = this.#ended.shift();
    return ended && { type: 'end', ...ended };
  }

  #add(index: number, { tokens, logprobs, topLogprobs }: GenerationDelta): void {
    const waiting = this.#waiting.get(index);
    if (!waiting) {
      // Copied, because the buffered delta grows and the engine's own must not.
      this.#waiting.set(index, {
        tokens: [...tokens],
        logprobs: [...logprobs],
        topLogprobs: [...topLogprobs],
      });
      return;
    }
    for (const [position, token] of tokens.entries()) {
      waiting.tokens.push(token);
      waiting.logprobs.push(logprobs[position] ?? 0);
      waiting.topLogprobs.push(topLogprobs[position] ?? []);
    }
  }

  /** An engine may report the last tokens only in the result. */
  #finish(index: number, generation: Generation, sent: number): void {
    const { tokens, logprobs, topLogprobs } = generation;
    if (sent < tokens.length)
      this.#add(index, {
        tokens: tokens.slice(sent),
        logprobs: logprobs.slice(sent),
        topLogprobs: topLogprobs.slice(sent),
      });
    this.#ended.push({ index, generation });
    this.#open--;
  }
}
