import type { z } from 'zod';
import {
  chatLimits,
  historySchema,
  type ParsedTrajectory,
  trainingLimits,
  trajectorySchema,
} from '../../contract/index.ts';
import { isObject, type JsonObject } from '../../util/json.ts';
import type { TimeSlices } from '../../util/time-slices.ts';
import { wholeBytes } from '../json/parse.ts';
import { type ReadItem, readItem } from '../validation.ts';
import { readChoiceOrMessage } from './read-choice.ts';
import { inSchemaOrder, type Place, type ReadOptions, readList } from './read-list.ts';

type ParsedHistory = z.output<typeof historySchema>;

export interface ReadTrajectoryOptions {
  /** Length of its text in bytes; null where the text around it is read as a whole. */
  bytes: number | null;
  slices: TimeSlices;
}

/**
 * Reads a trajectory with its schema. One whose text has many bytes is read in pieces, between which others have
 * their turn; what is said of it is the same.
 */
export async function readTrajectory(
  value: unknown,
  place: Place,
  { bytes, slices }: ReadTrajectoryOptions,
): Promise<ReadItem<ParsedTrajectory>> {
  if (slices.over) await slices.pause();
  if (bytes === null || bytes <= wholeBytes || !isObject(value))
    return readItem(trajectorySchema, value, place);
  const own = await readMessages(value, { place, slices });
  if (slices.over) await slices.pause();
  const histories = await readList(own.beside, {
    ...{ name: 'additional_histories', most: trainingLimits.histories, place, slices },
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
    ...{ name: 'messages_and_choices', most: chatLimits.messages, place, slices },
    read: readChoiceOrMessage,
  });
