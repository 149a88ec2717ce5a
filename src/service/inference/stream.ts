import type { ChatCompletionChunk } from '../../contract/index.ts';
import type { Generation, GenerationDelta } from '../../engines/engine.ts';
import { type PreparedChat, toUsage } from './chat.ts';
import type { ReplyDelta, ReplyParser } from './reply-parser.ts';

type ChunkChoice = ChatCompletionChunk['choices'][number];

type Happening =
  | { type: 'delta'; index: number; delta: GenerationDelta }
  | { type: 'end'; index: number; generation: Generation };

/**
 * Samples every choice of a request and answers chunk by chunk: the role, then what came, then the finish, and the
 * usage where it was asked for. Aborts the sampling when it is left early.
 */
export async function* stream(chat: PreparedChat, signal: AbortSignal): AsyncGenerator<ChatCompletionChunk> {
  const leave = new AbortController();
  const happenings = new Happenings(chat, AbortSignal.any([signal, leave.signal]));
  const parsers = Array.from({ length: chat.choices }, () => chat.parser());
  const includeUsage = chat.request.stream_options?.include_usage === true;
  let completionTokens = 0;
  let cachedTokens = 0;
  const chunk = (choices: ChunkChoice[]): ChatCompletionChunk => ({
    id: chat.id,
    object: 'chat.completion.chunk',
    created: chat.created,
    model: chat.model.pinnedName,
    choices,
    ...(includeUsage ? { usage: null } : {}),
  });
  try {
    for (const index of parsers.keys()) {
      const role: ChunkChoice = { index, delta: { role: 'assistant', content: '' }, finish_reason: null };
      yield index === 0 && chat.request.return_token_ids
        ? { ...chunk([role]), prompt_token_ids: chat.prompt }
        : chunk([role]);
    }
    for await (const happening of happenings.all()) {
      const parser = parsers[happening.index];
      if (!parser) continue;
      if (happening.type === 'delta') {
        completionTokens += happening.delta.tokens.length;
        for (const choice of deltaChoices(
          chat,
          happening.index,
          parser.push(happening.delta.tokens),
          happening.delta,
        ))
          yield chunk([choice]);
        continue;
      }
      cachedTokens = Math.max(cachedTokens, happening.generation.cachedTokens);
      for (const choice of endChoices(chat, happening.index, parser, happening.generation))
        yield chunk([choice]);
    }
    if (includeUsage) yield { ...chunk([]), usage: toUsage(chat.prompt, completionTokens, cachedTokens) };
  } finally {
    leave.abort();
  }
}

/** A chunk for each piece; the tokens and log-probabilities go with the first, so that none is told twice. */
function deltaChoices(
  chat: PreparedChat,
  index: number,
  reply: ReplyDelta,
  tokens: GenerationDelta,
): ChunkChoice[] {
  const pieces = toDeltas(reply);
  const asked = chat.request.logprobs || chat.request.return_token_ids;
  if (pieces.length === 0 && asked) pieces.push({});
  return pieces.map((delta, position) => ({
    index,
    delta,
    ...(position === 0 && chat.request.logprobs ? { logprobs: chat.tools.texts.logprobs(tokens) } : {}),
    ...(position === 0 && chat.request.return_token_ids ? { token_ids: tokens.tokens } : {}),
    finish_reason: null,
  }));
}

function endChoices(
  chat: PreparedChat,
  index: number,
  parser: ReplyParser,
  generation: Generation,
): ChunkChoice[] {
  const rest = toDeltas(parser.end(generation.stop)).map(
    (delta): ChunkChoice => ({ index, delta, finish_reason: null }),
  );
  return [
    ...rest,
    {
      index,
      delta: {},
      finish_reason: parser.finishReason(generation),
      stop_reason: generation.stop,
      sampling: chat.sampling,
    },
  ];
}

function toDeltas({ content, calls }: ReplyDelta): ChunkChoice['delta'][] {
  const deltas: ChunkChoice['delta'][] = content === '' ? [] : [{ content }];
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

/** The deltas and ends of all choices of a request, in the order they come. */
class Happenings {
  readonly #queue: Happening[] = [];
  #failure: { error: unknown } | null = null;
  #open: number;
  #wake: () => void = () => {};

  constructor(chat: PreparedChat, signal: AbortSignal) {
    this.#open = chat.choices;
    for (let index = 0; index < chat.choices; index++) {
      let told = 0;
      chat
        .generate(index, signal, (delta) => {
          told += delta.tokens.length;
          this.#push({ type: 'delta', index, delta });
        })
        .then(
          (generation) => {
            // An engine may give the last tokens with the result alone.
            if (told < generation.tokens.length)
              this.#push({ type: 'delta', index, delta: tail(generation, told) });
            this.#open--;
            this.#push({ type: 'end', index, generation });
          },
          (error: unknown) => {
            this.#failure = { error };
            this.#wake();
          },
        );
    }
  }

  async *all(): AsyncGenerator<Happening> {
    for (;;) {
      const next = this.#queue.shift();
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

  #push(happening: Happening): void {
    this.#queue.push(happening);
    this.#wake();
  }
}

function tail(generation: Generation, from: number): GenerationDelta {
  return {
    tokens: generation.tokens.slice(from),
    logprobs: generation.logprobs.slice(from),
    topLogprobs: generation.topLogprobs.slice(from),
  };
}
