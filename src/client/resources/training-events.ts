import { z } from 'zod';
import type { Page } from '../../contract/index.ts';
import type { Answer } from '../call.ts';
import { parseAnswer, parseJson, parseValue } from '../parse.ts';
import {
  longestId,
  type ReportedTrainingEvent,
  reportedEventSchema,
  reportedPageSchema,
} from '../reported.ts';

const anyEventSchema = z.looseObject({ id: z.string().max(longestId), type: z.string() });
const anyEventPageSchema = reportedPageSchema(anyEventSchema);
const knownTypes = new Set(['training_started', 'gradient_step', 'training_ended', 'training_failed']);

/** A page of events without those whose type is none of the contract's: a service may come to have more. */
export function parseEventPage(answer: Answer): Page<ReportedTrainingEvent> {
  const page = parseAnswer(anyEventPageSchema, answer);
  return { ...page, data: page.data.flatMap((value) => known(value, answer.facts)) };
}

/** The event that a message of the stream carries whole in its `data`, in an array that is empty for an unknown one. */
export function parseEventMessage(data: string, facts: Answer['facts']): ReportedTrainingEvent[] {
  const value = parseJson({ facts, text: data }, 'an event is not JSON');
  return known(parseValue(anyEventSchema, value, facts), facts);
}

export const isLast = (event: ReportedTrainingEvent): boolean =>
  event.type === 'training_ended' || event.type === 'training_failed';

function known(value: z.output<typeof anyEventSchema>, facts: Answer['facts']): ReportedTrainingEvent[] {
  return knownTypes.has(value.type) ? [parseValue(reportedEventSchema, value, facts)] : [];
}
