import type { z } from 'zod';
import { choiceSchema, historySchema, logprobsSchema, requestLimits } from '../../contract/index.ts';
import { isObject, type JsonObject } from '../../util/json.ts';

import { type ReadItem, readItem } from '../validation.ts';
import { inSchemaOrder, type ReadOptions } from './read-list.ts';

const itemSchema = historySchema.shape.messages_and_choices.element;
const contentSchema = logprobsSchema.shape.content.unwrap().unwrap();

/** As many log-probabilities are read in one piece: about a millisecond. */
const entriesAtATime = 1000;

/** Reads what stands in a conversation; the log-probabilities of a long choice in pieces. */
export async function readChoiceOrMessage(
  item: unknown,
  { place, slices }: ReadOptions,
): Promise<ReadItem<z.output<typeof itemSchema>>> {
  const long = longContentOf(item);
  if (!long) return readItem(itemSchema, item, place);
  const { choice, logprobs, content } = long;
  const entries: z.output<typeof contentSchema> = [];
  const issues = [];
  for (let from = 0; from < content.length; from += entriesAtATime) {
    const at = [...place, 'logprobs', 'content'];
    const part = readItem(contentSchema, content.slice(from, from + entriesAtATime), at);
    if ('issues' in part)
      issues.push(...part.issues.map((issue) => ({ ...issue, loc: moved(issue.loc, at.length, from) })));
    else for (const entry of part.value) entries.push(entry);
    if (slices.over) await slices.pause();
  }
  const read = readItem(itemSchema, { ...choice, logprobs: { ...logprobs, content: [] } }, place, item);
  if ('issues' in read) issues.push(...read.issues);
  if (issues.length > 0 || 'issues' in read) return { issues: inSchemaOrder(choiceSchema, issues, place) };
  if (!('message' in read.value)) return read;
  return { value: { ...read.value, logprobs: { ...read.value.logprobs, content: entries } } };
}

/** The place of an entry, counted from the beginning of the whole list. */
function moved(loc: readonly (string | number)[], position: number, from: number): (string | number)[] {
  return loc.map((part, index) => (index === position && typeof part === 'number' ? part + from : part));
}

function longContentOf(
  item: unknown,
): { choice: JsonObject; logprobs: JsonObject; content: unknown[] } | undefined {
  if (!isObject(item) || !('message' in item) || !isObject(item.logprobs)) return undefined;
  const { content } = item.logprobs;
  if (!Array.isArray(content) || content.length <= entriesAtATime) return undefined;
  // A list that is too long is refused as a whole.
  if (content.length > requestLimits.tokens) return undefined;
  return { choice: item, logprobs: item.logprobs, content };
}
