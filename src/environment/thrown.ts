import { readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { fileURLToPath } from 'node:url';
import { MartingaleError, printableLines } from '../contract/index.ts';
import { showValue } from '../util/show-value.ts';

/** The message of whatever was thrown, even if it is not an error or cannot be read. */
export function describeThrown(thrown: unknown): string {
  try {
    if (thrown instanceof Error && typeof thrown.message === 'string') return thrown.message || thrown.name;
    // Some libraries throw plain objects.
    const message = readThrown(thrown, 'message');
    if (typeof message === 'string' && message !== '') return message;
    const text = String(thrown);
    return text === '[object Object]' ? showValue(thrown) : text;
  } catch {
    return 'something that cannot be written as text';
  }
}

/** A name to count errors by: `code` of martingale's errors, else the class name; `thrown` for what is not an error. */
export function codeOfThrown(thrown: unknown): string {
  try {
    if (MartingaleError.isInstance(thrown)) return thrown.code;
    if (thrown instanceof Error)
      return typeof thrown.name === 'string' && thrown.name ? thrown.name : 'Error';
  } catch {
    // The name cannot be read.
  }
  return 'thrown';
}

/** A value that should have been a number, for a message. Strings are quoted: "1" must not look like a number. */
export function describeValue(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value);
  return typeof value === 'bigint' ? `the bigint ${value}` : describeThrown(value);
}

/** Maximum number of errors of a chain to follow: a chain may be long, or contain itself. */
const maxErrors = 16;

/** A property of whatever was thrown; undefined if it is absent or cannot be read. */
export function readThrown(thrown: unknown, property: string): unknown {
  try {
    return typeof thrown === 'object' && thrown !== null ? Reflect.get(thrown, property) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * What was thrown and its reasons: causes, the errors of an AggregateError, and the last error of the AI SDK's
 * RetryError. Each once, outermost first, at most 16.
 */
export function errorsWithin(thrown: unknown): unknown[] {
  const found = new Set<unknown>([thrown]);
  for (const error of found) {
    const several = readThrown(error, 'errors');
    const reasons = [
      readThrown(error, 'cause'),
      readThrown(error, 'lastError'),
      ...(Array.isArray(several) ? several.slice(0, maxErrors) : []),
    ];
    for (const reason of reasons)
      if (reason !== undefined && reason !== null && found.size < maxErrors) found.add(reason);
  }
  return [...found];
}

/** Where something was thrown. */
export interface ThrownLocation {
  /**
   * `/folder/file.ts:12:5`: the first stack frame outside martingale, installed packages and Node. Source maps apply if
   * the process has them on, as with tsx. Absent without such a frame.
   */
  at?: string;
  /**
   * The error and its causes, each with its stack: at most five errors, 1,000 characters of each message and 3,000 of
   * each stack. Absent if none has a stack.
   */
  stack?: string;
}

const shownErrors = 5;
const maxHeadLength = 1000;
const maxFramesLength = 3000;

/** Where an error was thrown; empty without a readable stack. */
export function locationOfThrown(thrown: unknown): ThrownLocation {
  const errors = errorsWithin(thrown).slice(0, shownErrors);
  const stacks = errors.map(stackOf);
  if (!stacks.some((stack) => stack !== undefined)) return {};
  // martingale's errors wrap the user's: prefer the frame of the cause.
  const userStacks = stacks.filter((_, at) => !isOurs(errors[at]));
  const at = [...userStacks, ...stacks]
    .map((stack) => firstUserFrame(stack?.frames ?? ''))
    .find((frame) => frame !== undefined);
  const stack = stacks
    .map((split, index) => {
      const { head = describeThrown(errors[index]), frames = '' } = split ?? {};
      return `${clip(head, maxHeadLength)}${clip(frames, maxFramesLength)}`;
    })
    .join('\nCaused by: ');
  return { ...(at === undefined ? {} : { at: printableLines(at) }), stack: printableLines(stack) };
}

const clip = (text: string, length: number): string =>
  text.length > length ? `${text.slice(0, length)}…` : text;

/** The message of an error, and where it was thrown. */
export function describeWithLocation(thrown: unknown): string {
  const { at } = locationOfThrown(thrown);
  return at === undefined ? describeThrown(thrown) : `${describeThrown(thrown)} (at ${at})`;
}

/** Whether it is an error of martingale; false if it cannot be inspected. */
export function isOurs(error: unknown): boolean {
  try {
    return MartingaleError.isInstance(error);
  } catch {
    return false;
  }
}

/** The stack, split into message and frames: a message may contain lines that look like frames. */
function stackOf(error: unknown): { head: string; frames: string } | undefined {
  const stack = readThrown(error, 'stack');
  if (typeof stack !== 'string' || stack === '') return undefined;
  const message = readThrown(error, 'message');
  const begin = typeof message === 'string' && message !== '' ? stack.indexOf(message) : -1;
  const end = begin >= 0 ? begin + String(message).length : stack.search(/\n\s+at /);
  return end < 0 ? { head: stack, frames: '' } : { head: stack.slice(0, end), frames: stack.slice(end) };
}

/** `    at name (file:line:column)`, `    at async file:line:column` and the like. */
const framePattern = /^\s+at (?:.*?\()?(?:async )?((?:file:\/\/)?(?:[A-Za-z]:)?[\\/].*?):(\d+):(\d+)\)?$/;

/** Bounds, because a library may raise `Error.stackTraceLimit` or write its own stack. */
const maxFrames = 200;
const maxFrameLength = 2000;

/** Folder of martingale's own modules: `src`, or `dist` in the package. */
const ownFolder = withSlashes(fileURLToPath(new URL('..', import.meta.url)));

const sourceMaps = new Map<string, SourceMap | null>();

/**
 * The module that a frame of ours was written in, relative to `src`. In the package, a file joins several modules and
 * has a source map.
 */
function sourceOf(path: string, row: number, column: number): string {
  const own = path.slice(ownFolder.length);
  if (!path.endsWith('.js')) return own;
  let map = sourceMaps.get(path);
  if (map === undefined) {
    try {
      map = new SourceMap(JSON.parse(readFileSync(`${path}.map`, 'utf8')));
    } catch {
      map = null;
    }
    sourceMaps.set(path, map);
  }
  const entry = map?.findEntry(row - 1, column - 1) ?? {};
  const [, source] = 'originalSource' in entry ? String(entry.originalSource).split('/src/') : [];
  return source ?? own;
}

function firstUserFrame(frames: string): string | undefined {
  for (const line of frames.split('\n', maxFrames)) {
    const [, location, row, column] = framePattern.exec(line.slice(0, maxFrameLength)) ?? [];
    if (location === undefined) continue;
    const file = toPath(location);
    const path = withSlashes(file);
    // Frames from here on belong to the code that runs rollouts, such as the caller of train().
    if (path.startsWith(ownFolder) && sourceOf(path, Number(row), Number(column)).startsWith('rollout/'))
      return undefined;
    if (path.startsWith(ownFolder) || path.includes('/node_modules/')) continue;
    return `${file}:${row}:${column}`;
  }
  return undefined;
}

function toPath(location: string): string {
  try {
    return location.startsWith('file://') ? fileURLToPath(location) : location;
  } catch {
    return location;
  }
}

function withSlashes(path: string): string {
  return path.replaceAll('\\', '/');
}
