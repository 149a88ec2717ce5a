import { requestLimits, trainingLimits } from '../contract/index.ts';
import { showValue } from '../util/show-value.ts';

/** What environments write to a trajectory beside its calls and its reward. */
export interface TrajectoryNotes {
  metrics: Record<string, number | boolean>;
  metadata: Record<string, number | string | boolean | null>;
  logs: string[];
}

/** What is checked of a trajectory. */
interface CheckedTrajectory {
  reward: number | null;
  notes: TrajectoryNotes;
  histories: readonly { entries: readonly unknown[] }[];
}

/** Whether a service accepts a number as the reward of a trajectory, or as the credit of a call. */
export const isSendableReward = (reward: number): boolean => Math.abs(reward) <= requestLimits.number;

/** For messages: the rewards that a service accepts. */
export const sendableRewards = `from -${requestLimits.number} to ${requestLimits.number}`;

/**
 * Why a service would refuse the whole request that holds this trajectory, as the end of a sentence; undefined if it
 * would not. Long texts are no reason, because `shortNotes` shortens them.
 */
export function whyNotSendable({ reward, notes, histories }: CheckedTrajectory): string | undefined {
  if (reward !== null && !isSendableReward(reward))
    return `has the reward ${reward}, and rewards must be ${sendableRewards}`;
  const { metrics, metadata, logs } = notes;
  const longest = Math.max(0, ...histories.map(({ entries }) => entries.length));
  return (
    wrongNames('metrics', Object.keys(metrics), trainingLimits.metrics) ??
    wrongNames('metadata', Object.keys(metadata), trainingLimits.metadata) ??
    wrongValue(metadata, logs) ??
    tooMany('conversations', histories.length, trainingLimits.histories + 1) ??
    tooMany('messages in a conversation', longest, trainingLimits.messages)
  );
}

function wrongNames(field: string, names: readonly string[], most: number): string | undefined {
  const long = names.find(({ length }) => length > requestLimits.name);
  if (long === undefined) return tooMany(`entries in \`${field}\``, names.length, most);
  const start = showValue(long);
  return `has a name of ${long.length} characters in \`${field}\` (${start}), and at most ${requestLimits.name} are allowed`;
}

function wrongValue(metadata: object, logs: readonly unknown[]): string | undefined {
  const isAllowed = (value: unknown) =>
    value === null || ['number', 'string', 'boolean', 'undefined'].includes(typeof value);
  for (const [name, value] of Object.entries(metadata))
    if (!isAllowed(value))
      return `has ${showValue(value)} as \`metadata.${name}\`, where a number, text, boolean or null is allowed`;
  const at = logs.findIndex((line) => typeof line !== 'string');
  return at < 0 ? undefined : `has ${showValue(logs[at])} as \`logs[${at}]\`, where a text is allowed`;
}

function tooMany(what: string, count: number, most: number): string | undefined {
  return count <= most ? undefined : `has ${count} ${what}, and at most ${most} are allowed`;
}

/** The notes with their texts and lines shortened to what a service accepts. */
export function shortNotes({ metrics, metadata, logs }: TrajectoryNotes): TrajectoryNotes {
  const isLong = (value: unknown) =>
    typeof value === 'string' && value.length > trainingLimits.metadataLength;
  return {
    metrics,
    metadata: Object.values(metadata).some(isLong)
      ? Object.fromEntries(
          Object.entries(metadata).map(([name, value]) => [
            name,
            shorten(value, trainingLimits.metadataLength),
          ]),
        )
      : metadata,
    logs: shortLogs(logs),
  };
}

function shortLogs(logs: string[]): string[] {
  const { logs: most, logLength } = trainingLimits;
  if (logs.length <= most && logs.every(({ length }) => !(length > logLength))) return logs;
  const kept = logs.length > most ? most - 1 : most;
  const head = logs.slice(0, Math.ceil(kept / 2));
  const tail = logs.slice(head.length).slice(-(kept - head.length));
  const mark = `[... ${logs.length - kept} lines are left out: a log has at most ${most} lines ...]`;
  const lines = logs.length > most ? [...head, mark, ...tail] : logs;
  return lines.map((line) => shorten(line, logLength));
}

/** Leaves out the middle of a text that is too long. A mark in its place says how much. Other values are unchanged. */
export function shorten<Value>(value: Value, most: number): Value | string {
  if (typeof value !== 'string' || value.length <= most) return value;
  const mark = (count: number) => ` [... ${count} characters are left out: at most ${most} are kept ...] `;
  const kept = most - mark(value.length).length;
  const head = value.slice(0, Math.ceil(kept / 2));
  const tail = value.slice(value.length - Math.floor(kept / 2));
  // A cut may leave half of a surrogate pair.
  return `${head}${mark(value.length - kept)}${tail}`.toWellFormed();
}
