import type { Caller } from '../../util/fair-queue.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { ReadingThread } from '../reading-thread.ts';
import { rememberTexts } from './exact-tools.ts';
import { parseJson } from './parse.ts';
import { fromPieces, type Pieces } from './pieces.ts';

/** Text up to this size is parsed and validated in one go, which takes a few milliseconds. */
export const wholeBytes = 131_072;

/** What a text may be read as. Each kind is known to the thread by its name. */
export interface TextKind<Value> {
  name: string;
  /** Parses and validates a text. */
  read: (content: Buffer) => Value;
}

/** A text to read. */
export interface TextTask {
  kind: string;
  content: Uint8Array;
}

interface TextRead {
  pieces: Pieces;
  /** What `toolTexts` knows of the value. */
  tools: (string | null)[];
}

/** One thread for all services of the process, since a text says all that is needed to read it. */
const thread = new ReadingThread<TextTask, TextRead>('text');

/**
 * Reads a text: a short one at once, a long one in a thread, which hands the value over in pieces. So a text does not
 * hold the event loop, however long it is.
 * @throws what the kind throws; ServiceError `body_too_large` or `bodies_busy`.
 */
export async function readText<Value>(
  kind: TextKind<Value>,
  content: Buffer,
  { slices = new TimeSlices(), caller }: { slices?: TimeSlices; caller?: Caller } = {},
): Promise<Value> {
  if (slices.over) await slices.pause();
  if (content.length <= wholeBytes) return kind.read(content);
  const { pieces, tools } = await thread.run({ kind: kind.name, content }, content.length, { caller });
  // The thread has read it with the same function.
  const value = (await fromPieces(pieces)) as Value;
  rememberTexts(value, tools, wholeBytes);
  return value;
}

export const jsonText: TextKind<unknown> = { name: 'json', read: (content) => parseJson(content) };

/** Parses the JSON of a body. @throws what `readText` throws */
export const readJson = (content: Buffer): Promise<unknown> => readText(jsonText, content);
