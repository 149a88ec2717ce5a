import { createHash } from 'node:crypto';
import type { ChatCompletion, ChatCompletionChunk, ChatCompletionRequest } from '../contract/index.ts';
import { currentTrajectory } from '../trajectory/index.ts';

export const recordedCallsFormat = 'martingale.calls';
export const recordedCallsVersion = 1;

/** Opens a file of recorded calls, and again each time that recording into it begins. */
export interface RecordedCallsHeader {
  format: typeof recordedCallsFormat;
  version: number;
  /** ISO time. */
  recorded: string;
}

/** What was asked: the request without how it was answered, whole or as a stream. */
export type AskedRequest = Omit<ChatCompletionRequest, 'stream' | 'stream_options'>;

/** Tells calls apart: a call in a rollout is not one that another rollout made in the same words. */
export interface AskedCall {
  request: AskedRequest;
  /** Seed of the rollout that the call was made in; null outside of rollouts. */
  rollout: number | null;
}

/** One answered call, a line of the file. */
export interface RecordedCallLine extends AskedCall {
  /** `callKey` of it. */
  key: string;
  /** Place in the order of asking, from the header on. */
  asked: number;
  /** What came back whole, */
  completion?: ChatCompletion;
  /** or in pieces. They end early where the caller stopped reading. */
  chunks?: ChatCompletionChunk[];
}

export function askedCall(request: ChatCompletionRequest): AskedCall {
  const { stream: _, stream_options: __, ...rest } = request;
  return { request: rest, rollout: currentTrajectory()?.seed ?? null };
}

/** SHA-256 of what was asked, whatever the order of its fields; a field that is null is one that is not there. */
export function callKey(call: AskedCall): string {
  return createHash('sha256').update(canonicalJson(call)).digest('hex');
}

/** JSON with the fields of objects in order and without those that are null: `null` means absent in requests. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(canonical(value)) ?? 'null';
}

export function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(canonical);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, member]) => member !== null && member !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, member]) => [name, canonical(member)]),
  );
}
