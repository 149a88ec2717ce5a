import type { z } from 'zod';
import {
  choiceSchema,
  historySchema,
  logprobsSchema,
  type ParsedTrajectory,
  requestLimits,
  trainingLimits,
  trajectorySchema,
  type ValidationIssue,
} from '../../contract/index.ts';
import { isObject } from '../../util/json.ts';
import type { TimeSlices } from '../../util/time-slices.ts';
import { maxIssues } from '../errors.ts';
import { wholeBytes } from '../json/parse.ts';
import { type ReadItem, readItem } from '../validation.ts';
import { valueAt } from '../zod-issues.ts';

/**
 * Validates a trajectory. A long one is validated in pieces, with time slices between them; the result and the issues
 * are the same. `bytes`: length of its text; null when the whole body is small enough to be read at once.
 */
export async function readTrajectory(
  value: unknown,
  path: Path,
  { bytes, slices }: { bytes: number | null; slices: TimeSlices },
): Promise<ReadItem<ParsedTrajectory>> {
  if (slices.over) await slices.pause();
  if (bytes === null || bytes <= wholeBytes) return readItem(trajectorySchema, value, path);
  return readSliced(trajectorySchema, value, path, {
    lists: [conversation, histories],
    order: trajectorySchema,
    slices,
  });
}

type Path = (string | number)[];

/** A list of an object that is read in pieces. */
interface SlicedList {
  /** Path of the list in the object. */
  names: string[];
  /** A longer list stays in the object, whose schema refuses it without reading its items. */
  max: number;
  /** Items in a piece. */
  size: number;
  /** Reads one item or, for a larger `size`, the list of a piece. `path`: of the list; `index`: of the first item. */
  read: (
    piece: unknown[],
    path: Path,
    index: number,
    slices: TimeSlices,
  ) => ReadItem<unknown> | Promise<ReadItem<unknown>>;
}

const itemSchema = historySchema.shape.messages_and_choices.element;
const contentSchema = logprobsSchema.shape.content.unwrap().unwrap();

/** A thousand entries are validated in about a millisecond. */
const logprobs: SlicedList = {
  names: ['logprobs', 'content'],
  max: requestLimits.tokens,
  size: 1000,
  read(entries, path, start) {
    const result = readItem(contentSchema, entries, path);
    if ('value' in result) return result;
    const { length } = path;
    return {
      issues: result.issues.map((issue) => ({
        ...issue,
        loc: issue.loc.with(length, start + Number(issue.loc[length])),
      })),
    };
  },
};

const conversation: SlicedList = {
  names: ['messages_and_choices'],
  max: trainingLimits.messages,
  size: 1,
  read([item], path, index, slices) {
    const content = valueAt(item, logprobs.names);
    const at = [...path, index];
    return isObject(item) && 'message' in item && Array.isArray(content) && content.length > logprobs.size
      ? readSliced(itemSchema, item, at, { lists: [logprobs], order: choiceSchema, slices })
      : readItem(itemSchema, item, at);
  },
};

const histories: SlicedList = {
  names: ['additional_histories'],
  max: trainingLimits.histories,
  size: 1,
  read: ([history], path, index, slices) =>
    readSliced(historySchema, history, [...path, index], {
      lists: [conversation],
      order: historySchema,
      slices,
    }),
};

interface SlicedOptions {
  lists: SlicedList[];
  /** Issues are sorted by the fields of this schema. */
  order: z.ZodObject;
  slices: TimeSlices;
}

/** Validates an object, and its lists in pieces with time slices between them. */
async function readSliced<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  path: Path,
  { lists, order, slices }: SlicedOptions,
): Promise<ReadItem<z.output<Schema>>> {
  const issues: ValidationIssue[] = [];
  const valid: { names: string[]; items: unknown[] }[] = [];
  let rest = value;
  for (const { names, max, size, read } of lists) {
    const list = valueAt(value, names);
    if (!Array.isArray(list) || list.length > max) continue;
    const items: unknown[] = [];
    const maxOfAll = issues.length + maxIssues;
    for (let index = 0; index < list.length; index += size) {
      const result = await read(list.slice(index, index + size), [...path, ...names], index, slices);
      if ('value' in result) items.push(result.value);
      else issues.push(...result.issues);
      if (issues.length >= maxOfAll) break;
      if (slices.over) await slices.pause();
    }
    rest = withEmptyList(rest, names);
    valid.push({ names, items: size === 1 ? items : items.flat() });
  }
  if (slices.over) await slices.pause();
  const head = readItem(schema, rest, path, value);
  if (valid.length === 0) return head;
  if ('issues' in head) issues.push(...head.issues);
  if (issues.length > 0 || 'issues' in head) return { issues: sortIssues(order, issues, path) };
  for (const { names, items } of valid) {
    const list = valueAt(head.value, names);
    if (Array.isArray(list)) for (const item of items) list.push(item);
  }
  return head;
}

/** A copy in which the list at a path is empty. */
function withEmptyList(value: unknown, [name, ...inner]: string[]): unknown {
  if (name === undefined || !isObject(value)) return [];
  return { ...value, [name]: withEmptyList(value[name], inner) };
}

/** Sorts issues by the order of the fields in the schema, as the schema itself would report them. */
export function sortIssues(
  schema: z.ZodObject,
  issues: readonly ValidationIssue[],
  path: Path,
): ValidationIssue[] {
  const names = Object.keys(schema.shape);
  const rank = ({ loc }: ValidationIssue) => {
    const index = names.indexOf(String(loc[path.length]));
    return index === -1 ? names.length : index;
  };
  return issues.toSorted((one, other) => rank(one) - rank(other)).slice(0, maxIssues);
}
