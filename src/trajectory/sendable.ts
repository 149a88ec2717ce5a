import { requestLimits, trainingLimits } from '../contract/index.ts';
import { largestOf } from '../util/extremes.ts';
import { showValue } from '../util/show-value.ts';

/** What environments write to a trajectory beside its calls and its reward. */
interface TrajectoryNotes {
  metrics: Record<string, number | boolean>;
  metadata: Record<string, number | string | boolean | null>;
  logs: string[];
}

/** What is checked of a trajectory. */
interface CheckedTrajectory {
  reward: number | null;
  metrics: TrajectoryNotes['metrics'];
  metadata: TrajectoryNotes['metadata'];
  logs: readonly string[];
  stopReason: string | null;
  histories: readonly { entries: readonly unknown[] }[];
}

/** Whether a service accepts a number as the reward of a trajectory, or as the credit of a call. */
export const isSendableReward = (reward: number): boolean => Math.abs(reward) <= requestLimits.number;

/** For messages: the rewards that a service accepts. */
export const sendableRewards = `from -${requestLimits.number} to ${requestLimits.number}`;

/**
 * Why a service would refuse the whole request that holds this trajectory, as the end of a sentence; undefined if it
 * would not. Long texts are no reason, because `sendableNotes` shortens them.
 */
export function whyNotSendable(trajectory: CheckedTrajectory): string | undefined {
  const { reward, metrics, metadata, logs, stopReason, histories } = trajectory;
  if (reward !== null && !isSendableReward(reward))
    return `has the reward ${reward}, and rewards must be ${sendableRewards}`;
  const longest = largestOf(
    histories.map(({ entries }) => entries.length),
    0,
  );
  return (
    wrongNames('metrics', Object.keys(metrics), trainingLimits.metrics) ??
    wrongNames('metadata', Object.keys(withStopReason(metadata, stopReason)), trainingLimits.metadata) ??
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

const isAllowed = (value: unknown) =>
  value === null || ['number', 'string', 'boolean', 'undefined'].includes(typeof value);

function wrongValue(metadata: object, logs: readonly unknown[]): string | undefined {
  for (const [name, value] of Object.entries(metadata))
    if (!isAllowed(value))
      return `has ${showValue(value)} as \`metadata.${name}\`, where a number, text, boolean or null is allowed`;
  const at = logs.findIndex((line) => typeof line !== 'string');
  return at < 0 ? undefined : `has ${showValue(logs[at])} as \`logs[${at}]\`, where a text is allowed`;
}

function tooMany(what: string, count: number, most: number): string | undefined {
  return count <= most ? undefined : `has ${count} ${what}, and at most ${most} are allowed`;
}

/** The metadata of the wire, which has the stop reason too. */
const withStopReason = (metadata: TrajectoryNotes['metadata'], stopReason: string | null) =>
  stopReason === null ? metadata : { ...metadata, stop_reason: stopReason };

/**
 * Metrics, metadata and logs in their wire format: long texts are shortened. Values that a service refuses fail the
 * rollout, but its record on disk has them as texts.
 */
export function sendableNotes({
  metrics,
  metadata,
  logs,
  stopReason,
}: Omit<CheckedTrajectory, 'reward' | 'histories'>): TrajectoryNotes {
  return {
    metrics: mapValues(metrics, (value) =>
      typeof value === 'number' || typeof value === 'boolean' ? value : Number.NaN,
    ),
    metadata: mapValues(withStopReason(metadata, stopReason), (value) =>
      shorten(isAllowed(value) ? value : showValue(value), trainingLimits.metadataLength),
    ),
    logs: shortLogs(logs),
  };
}

/** Returns the given object if no value changes, as is usual. */
function mapValues<Value>(
  values: Record<string, Value>,
  change: (value: Value) => Value,
): Record<string, Value> {
  const entries = Object.entries(values);
  if (entries.every(([, value]) => Object.is(change(value), value))) return values;
  return Object.fromEntries(entries.map(([name, value]) => [name, change(value)]));
}

function shortLogs(logs: readonly string[]): string[] {
  const { logs: most, logLength } = trainingLimits;
  const kept = logs.length > most ? most - 1 : most;
  const head = logs.slice(0, Math.ceil(kept / 2));
  const tail = logs.slice(head.length).slice(-(kept - head.length));
  const mark = `[... ${logs.length - kept} lines are left out: a log has at most ${most} lines ...]`;
  const lines: readonly unknown[] = logs.length > most ? [...head, mark, ...tail] : logs;
  return lines.map((line) => shorten(typeof line === 'string' ? line : showValue(line), logLength));
}

/** Leaves out the middle of a text that is too long. A mark in its place says how much. */
export function shorten<Value>(value: Value, most: number): Value;
export function shorten(value: unknown, most: number): unknown {
  if (typeof value !== 'string' || value.length <= most) return value;
  const mark = (count: number) => ` [... ${count} characters are left out: at most ${most} are kept ...] `;
  const kept = most - mark(value.length).length;
  const head = value.slice(0, Math.ceil(kept / 2));
  const tail = value.slice(value.length - Math.floor(kept / 2));
  // A cut may leave half of a surrogate pair.
  return `${head}${mark(value.length - kept)}${tail}`.toWellFormed();
}
