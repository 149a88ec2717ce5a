import { sha256 } from '../../util/json.ts';
import { CALL_ID, type CallForm } from '../call-forms.ts';
import type { ChatFormat } from '../tokenizer/tokenizer.ts';
import type { Turn } from './conversation.ts';
import { ReplyReader } from './reply-reader.ts';

const isShort = (id: string) => /^[A-Za-z0-9]{9}$/.test(id);

/** An id of a call as Mistral's models write it and their templates want it. */
export const shortId = (id: string): string => (isShort(id) ? id : sha256(id).slice(0, 9));

const hasIds = ({ beforeArguments, after }: CallForm) => (beforeArguments + after).includes(CALL_ID);

/**
 * The ids of calls in a prompt, by those that clients know. Where the model writes ids, clients get others, since an id is
 * sent before it is written: the results of sampled calls have the ids that were sampled, in the order of the calls.
 */
export function idsInPrompt(
  turns: readonly Turn[],
  { calls, reasoning }: Pick<ChatFormat, 'calls' | 'reasoning'>,
  textOf: (tokens: readonly number[]) => string,
): (id: string) => string {
  if (!calls || !hasIds(calls)) return (id) => id;
  const sampled = new Map<string, string>();
  for (const [index, { tokenIds, toolCalls }] of turns.entries()) {
    if (!tokenIds) continue;
    const text = textOf(tokenIds);
    const opened = reasoning !== null && text.includes(reasoning.close) && !text.includes(reasoning.open);
    const reader = new ReplyReader({ calls, reasoning: reasoning && { ...reasoning, opened } });
    reader.push(text);
    const next = turns.findIndex(({ role }, at) => at > index && role !== 'tool');
    const results = turns.slice(index + 1, next < 0 ? undefined : next);
    const answered = new Set(results.flatMap(({ toolCallId }) => toolCallId ?? []));
    for (const [position, id] of [...answered].entries()) {
      const known = toolCalls.findIndex((call) => call.id === id);
      const written = reader.ids.get(known < 0 ? position : known);
      if (written !== undefined && isShort(written)) sampled.set(id, written);
    }
  }
  return (id) => sampled.get(id) ?? shortId(id);
}
