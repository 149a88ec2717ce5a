import type { z } from 'zod';
import type { ValidationIssue } from '../../contract/index.ts';
import type { JsonObject } from '../../util/json.ts';
import type { TimeSlices } from '../../util/time-slices.ts';
import { largestIssueCount, type ReadItem } from '../validation.ts';

export type Place = (string | number)[];

export interface ReadOptions {
  /** Where the value stands in the body. */
  place: Place;
  slices: TimeSlices;
}

export interface ReadListOptions<Item> extends ReadOptions {
  /** Name of the list in its object. */
  name: string;
  /** A longer list is left to the schema of the object, which refuses it. */
  most: number;
  read: (item: unknown, options: ReadOptions) => Promise<ReadItem<Item>>;
}

export interface ListRead<Item> {
  /** The object with an empty list, where the list was read; else as it is. */
  beside: JsonObject;
  /** Null where there was no such list, or one that is left to the schema. */
  items: Item[] | null;
  issues: ValidationIssue[];
}

/** Reads the items of a list of an object one by one, with turns for others between them. */
export async function readList<Item>(
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
    if (issues.length >= largestIssueCount) break;
    if (slices.over) await slices.pause();
  }
  return { beside: { ...object, [name]: [] }, items, issues };
}

/** Complaints in the order in which the schema of an object has its fields, as it would have made them itself. */
export function inSchemaOrder(
  schema: z.ZodObject,
  issues: readonly ValidationIssue[],
  place: Place,
): ValidationIssue[] {
  const names = Object.keys(schema.shape);
  const rank = ({ loc }: ValidationIssue) => {
    const found = names.indexOf(String(loc[place.length]));
    return found === -1 ? names.length : found;
  };
  return issues.toSorted((one, other) => rank(one) - rank(other)).slice(0, largestIssueCount);
}
