import type { z } from 'zod';
import {
  chatLimits,
  choiceSchema,
  historySchema,
  logprobsSchema,
  type ParsedTrajectory,
  requestLimits,
  trainingLimits,
  trajectorySchema,
  type ValidationIssue,
} from '../../contract/index.ts';
import { isObject, type JsonObject } from '../../util/json.ts';
import type { TimeSlices } from '../../util/time-slices.ts';
import { maxIssues } from '../errors.ts';
import { wholeBytes } from '../json/parse.ts';
import { type ReadItem, readItem } from '../validation.ts';

type ParsedHistory = z.output<typeof historySchema>;

interface ReadTrajectoryOptions {
  /** Length of its text in bytes; null when the whole body is small enough to be read at once. */
  bytes: number | null;
  slices: TimeSlices;
}

/**
 * Validates a trajectory. A long one is validated in pieces, with time slices between them; the result and the issues
 * are the same.
 */
export async function readTrajectory(
  value: unknown,
  place: Path,
  { bytes, slices }: ReadTrajectoryOptions,
): Promise<ReadItem<ParsedTrajectory>> {
  if (slices.over) await slices.pause();
  if (bytes === null || bytes <= wholeBytes || !isObject(value))
    return readItem(trajectorySchema, value, place);
  const own = await readMessages(value, { place, slices });
  if (slices.over) await slices.pause();
  const histories = await readList(own.beside, {
    name: 'additional_histories',
    most: trainingLimits.histories,
    place,
    slices,
    read: readHistory,
  });
  if (slices.over) await slices.pause();
  const head = readItem(trajectorySchema, histories.beside, place, value);
  const issues = [...own.issues, ...histories.issues, ...('issues' in head ? head.issues : [])];
  if (issues.length > 0 || 'issues' in head)
    return { issues: inSchemaOrder(trajectorySchema, issues, place) };
  return {
    value: {
      ...head.value,
      ...(own.items && { messages_and_choices: own.items }),
      ...(histories.items && { additional_histories: histories.items }),
    },
  };
}

async function readHistory(value: unknown, { place, slices }: ReadOptions): Promise<ReadItem<ParsedHistory>> {
  if (!isObject(value)) return readItem(historySchema, value, place);
  const { items, issues, beside } = await readMessages(value, { place, slices });
  const head = readItem(historySchema, beside, place, value);
  if ('issues' in head) return { issues: inSchemaOrder(historySchema, [...issues, ...head.issues], place) };
  if (issues.length > 0) return { issues };
  return { value: { ...head.value, ...(items && { messages_and_choices: items }) } };
}

const readMessages = (value: JsonObject, { place, slices }: ReadOptions) =>
  readList(value, {
    name: 'messages_and_choices',
    most: chatLimits.messages,
    place,
    slices,
    read: readChoiceOrMessage,
  });

type Path = (string | number)[];

interface ReadOptions {
  /** Path of the value in the body. */
  place: Path;
  slices: TimeSlices;
}

interface ReadListOptions<Item> extends ReadOptions {
  /** Field of the list in its object. */
  name: string;
  /** A longer list stays in the object, whose schema refuses it. */
  most: number;
  read: (item: unknown, options: ReadOptions) => Promise<ReadItem<Item>>;
}

interface ListRead<Item> {
  /** The object, with an empty list if the list was read. */
  beside: JsonObject;
  /** Null when the field has no list, or the list stays in the object. */
  items: Item[] | null;
  issues: ValidationIssue[];
}

/** Reads the items of an object's list one by one, with time slices between them. */
async function readList<Item>(
  object: JsonObject,
  { name, most, read, place, slices }: ReadListOptions<Item>,
): Promise<ListRead<Item>> {
  const list = object[name];
  if (!Array.isArray(list) || list.length > most) return { beside: object, items: null, issues: [] };
  const items: Item[] = [];
  const issues: ValidationIssue[] = [];
  for (const [index, item] of list.entries()) {
    const result = await read(item, { place: [...place, name, index], slices });
    if ('value' in result) items.push(result.value);
    else issues.push(...result.issues);
    if (issues.length >= maxIssues) break;
    if (slices.over) await slices.pause();
  }
  return { beside: { ...object, [name]: [] }, items, issues };
}

/** Sorts issues by the order of the fields in the schema, as the schema itself would report them. */
export function inSchemaOrder(
  schema: z.ZodObject,
  issues: readonly ValidationIssue[],
  place: Path,
): ValidationIssue[] {
  const names = Object.keys(schema.shape);
  const rank = ({ loc }: ValidationIssue) => {
    const found = names.indexOf(String(loc[place.length]));
    return found === -1 ? names.length : found;
  };
  return issues.toSorted((one, other) => rank(one) - rank(other)).slice(0, maxIssues);
}

const itemSchema = historySchema.shape.messages_and_choices.element;
const contentSchema = logprobsSchema.shape.content.unwrap().unwrap();

/** Log-probabilities validated in one piece: about a millisecond. */
const entriesAtATime = 1000;

/** Reads an item of a conversation. The log-probabilities of a long choice are read in pieces. */
async function readChoiceOrMessage(
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

/** The path of an entry, with its index counted from the beginning of the whole list. */
function moved(loc: readonly (string | number)[], position: number, from: number): (string | number)[] {
  return loc.map((part, index) => (index === position && typeof part === 'number' ? part + from : part));
}

function longContentOf(
  item: unknown,
): { choice: JsonObject; logprobs: JsonObject; content: unknown[] } | undefined {
  if (!isObject(item) || !('message' in item) || !isObject(item.logprobs)) return undefined;
  const { content } = item.logprobs;
  if (!Array.isArray(content) || content.length <= entriesAtATime) return undefined;
  // The schema refuses a list that is too long, without reading its entries.
  if (content.length > requestLimits.tokens) return undefined;
  return { choice: item, logprobs: item.logprobs, content };
}
