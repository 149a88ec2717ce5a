import type { ChatCompletionChunk } from '../../../contract/index.ts';
import type { Engine, Generation, GenerationDelta } from '../../../engines/engine.ts';
import { type ReplyDelta, ReplyParser } from '../../../language/index.ts';
import type { Deadline } from '../../../util/deadline.ts';
import type { PreparedChat } from '../prepare-chat.ts';
import { reportSampling, reportStop, reportTokens, toUsage } from '../token-report.ts';
import { ReplyUpdates } from './reply-updates.ts';
import { scorePrompt } from './sample.ts';

type ChunkChoice = ChatCompletionChunk['choices'][number];

/**
 * Samples all choices of a request until `ending` and streams the answer, in lists of what is known at the same time: the
 * role, the deltas, the finish reason, and the usage if requested. Aborts `ending` if it fails or the consumer stops early.
 */
export async function* stream(
  engine: Engine,
  chat: PreparedChat,
  ending: Deadline,
): AsyncGenerator<ChatCompletionChunk[]> {
  const { signal } = ending;
  const { head, request } = chat;
  const { include_usage: last, continuous_usage_stats: always } = request.stream_options ?? {};
  let isWhole = false;
  let completionTokens = 0;
  let cachedTokens: number | null = null;
  const usage = () => toUsage(chat, completionTokens, cachedTokens);
  const chunkOf = (choices: ChunkChoice[]): ChatCompletionChunk => ({
    ...head,
    object: 'chat.completion.chunk',
    choices,
    ...(always ? { usage: usage() } : last ? { usage: null } : {}),
  });
  try {
    const updates = new ReplyUpdates(engine, chat, signal);
    const promptLogprobs = await scorePrompt(engine, chat, signal);
    const first = {
      ...(promptLogprobs ? { prompt_logprobs: promptLogprobs } : {}),
      ...(request.return_token_ids ? { prompt_token_ids: chat.prompt.tokens } : {}),
    };
    const parsers = new Map<number, ReplyParser>();
    /** Choices with at least one token. */
    const started = new Set<number>();
    const begin = (index: number): ChatCompletionChunk[] => {
      const extra = parsers.size === 0 ? first : {};
      parsers.set(index, new ReplyParser(chat.tools.tokenizer, chat.reading));
      return beginChoices(chat, index).map((choice, position) => ({
        ...chunkOf([choice]),
        ...(position === 0 ? extra : {}),
      }));
    };
    // A beam search may find fewer replies than requested.
    if (!request.use_beam_search) for (let index = 0; index < (request.n ?? 1); index++) yield begin(index);
    for await (const { index, delta, end } of updates.all()) {
      if (!parsers.has(index)) yield begin(index);
      const parser = parsers.get(index);
      if (!parser) continue;
      const chunks: ChatCompletionChunk[] = [];
      if (delta) {
        const isFirst = !started.has(index);
        completionTokens += delta.tokens.length;
        if (delta.tokens.length > 0) started.add(index);
        for (const choice of deltaChoices(chat, { index, delta }, parser.push(delta.tokens), { isFirst }))
          chunks.push(chunkOf([choice]));
      }
      if (end) {
        cachedTokens = Math.max(cachedTokens ?? 0, end.cachedTokens);
        for (const choice of endChoices(chat, index, parser, end)) chunks.push(chunkOf([choice]));
      }
      if (chunks.length > 0) yield chunks;
    }
    isWhole = true;
    if (last) yield [{ ...chunkOf([]), usage: usage() }];
  } finally {
    if (!isWhole) ending.abort(new Error('The stream ended early.'));
  }
}

/** The role, then the text that `echo` puts before the reply. */
function beginChoices({ reading: { echo } }: PreparedChat, index: number): ChunkChoice[] {
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
    ...(position === 0 ? reportTokens(chat, tokens, { isFirst }) : {}),
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
      ...reportStop(generation),
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
