import type { ChatCompletion, ChatCompletionChunk, Choice } from '../contract/index.ts';
import { StreamedChoice } from './completion-stream.ts';

type ChunkChoice = ChatCompletionChunk['choices'][number];

/** A whole completion as a stream: its role, its text, its tool calls one by one, then what is known at the end. */
export function toChunks(completion: ChatCompletion): ChatCompletionChunk[] {
  const { id, created, model, choices, usage, prompt_token_ids } = completion;
  const head = { id, object: 'chat.completion.chunk' as const, created, model };
  const chunk = (choice: ChunkChoice) => ({ ...head, choices: [choice] });
  const [opening, ...pieces] = choices.flatMap(toPieces);
  return [
    ...(opening ? [{ ...chunk(opening), ...(prompt_token_ids ? { prompt_token_ids } : {}) }] : []),
    ...pieces.map(chunk),
    { ...head, choices: [], usage },
  ];
}

function toPieces(choice: Choice): ChunkChoice[] {
  const { index, message, finish_reason, credited_reward: _, ...end } = choice;
  const { content, reasoning, reasoning_content, refusal, tool_calls } = message;
  const texts = Object.entries({ content, reasoning, reasoning_content, refusal }).filter(
    ([, text]) => text !== undefined,
  );
  const piece = (delta: ChunkChoice['delta']): ChunkChoice => ({ index, delta, finish_reason: null });
  return [
    piece({ role: 'assistant' }),
    ...texts.map(([name, text]) => piece({ [name]: text })),
    ...(tool_calls ?? []).map((call, at) => piece({ tool_calls: [{ index: at, ...call }] })),
    { index, delta: {}, finish_reason, ...end },
  ];
}

/** A recorded stream as the whole completion it makes. @throws IncompleteCompletionError where it was left early. */
export function toCompletion(chunks: readonly ChatCompletionChunk[]): ChatCompletion {
  const reply = new StreamedChoice();
  for (const chunk of chunks) reply.add(chunk);
  const { id, model, choice, promptTokenIds, usage } = reply.complete();
  const completion_tokens = choice.token_ids?.length ?? 0;
  return {
    id,
    object: 'chat.completion',
    created: chunks[0]?.created ?? 0,
    model,
    choices: [choice],
    usage: usage ?? {
      prompt_tokens: promptTokenIds.length,
      completion_tokens,
      total_tokens: promptTokenIds.length + completion_tokens,
    },
    ...(promptTokenIds.length > 0 ? { prompt_token_ids: promptTokenIds } : {}),
  };
}
