import { requestLimits } from '../../contract/index.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { RequestValidationError } from '../errors.ts';
import type { ByteSource, Range } from './byte-source.ts';

/** The error for a body that is not valid JSON. */
export function malformed(reason: string, at?: number): RequestValidationError {
  const error = at === undefined ? reason : `${reason} at byte ${at}`;
  return new RequestValidationError([
    { loc: ['body'], msg: `JSON decode error: ${error}`, type: 'json_invalid', input: null, ctx: { error } },
  ]);
}

/** Bounds on the structure of JSON text: see `requestLimits`. */
type JsonLimits = Readonly<Record<'depth' | 'containers' | 'members' | 'membersOfObject' | 'values', number>>;

/** The byte range of a member's value or of a list element. */
interface Child extends Range {
  /** Byte range of the member's name with its quotes; null for a list element. */
  key: Range | null;
}

interface JsonScannerOptions {
  /** Default: the limits of a body that is read in one piece. */
  limits?: JsonLimits;
  /** Location of the text in the request, for errors. Default: the body. */
  at?: string[];
  /** Offset of the text in its source. Default 0. */
  start?: number;
  /**
   * Called at the end of each member of the outermost object or element of the outermost list. Without it, invalid JSON
   * passes.
   */
  onChild?: (child: Child) => void;
}

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const colon = 0x3a;
const [openObject, closeObject] = [0x7b, 0x7d];
const [openList, closeList] = [0x5b, 0x5d];

/** White space of JSON. */
export const isSpace = (byte: number) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;

const endsBare = (byte: number) =>
  byte === comma || byte === closeObject || byte === closeList || isSpace(byte);

/** What is expected next in the outermost value. A list may end at `first`, but not at `value`. */
type Expected = 'opening' | 'first' | 'value' | 'colon' | 'separator' | 'nothing';

/**
 * Follows strings and nesting in JSON text without parsing it. Bytes come in chunks cut anywhere.
 *
 * It refuses text that is nested too deeply or has too many values: a parser takes seconds for a million names, and
 * recursive readers overflow the stack. With `onChild` it also finds the children of the outermost value and checks the
 * punctuation between them, so if each child is valid JSON, the whole is.
 */
export class JsonScanner {
  readonly #limits: JsonLimits;
  readonly #at: string[];
  readonly #onChild: ((child: Child) => void) | null;
  /** Members so far of each open object (0 for a list), the outermost first. */
  readonly #open: number[] = [];
  #containers = 0;
  #members = 0;
  #commas = 0;
  #inString = false;
  /** The next byte is escaped. */
  #escaped = false;
  /** Bytes before the current chunk. */
  #before: number;
  #expected: Expected = 'opening';
  #isObject = false;
  /** Start of the current child or key. */
  #start = 0;
  /** The child is a number or a literal, which ends where something else begins. */
  #isBare = false;
  #key: Range | null = null;

  constructor({ limits = requestLimits, at = ['body'], start = 0, onChild }: JsonScannerOptions = {}) {
    this.#limits = limits;
    this.#at = at;
    this.#before = start;
    this.#onChild = onChild ?? null;
  }

  /** Scans the next bytes. Throws if a limit is exceeded and, with `onChild`, the error of `malformed`. */
  push(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      if (this.#inString) at = this.#skipString(bytes, at);
      else if (this.#onChild && this.#open.length < 2) at = this.#scanPunctuation(bytes, at);
      else at = this.#skipNested(bytes, at);
    }
    this.#before += bytes.length;
  }

  /** Throws if the outermost value is incomplete. Only with `onChild`. */
  end(): void {
    if (this.#expected !== 'nothing') throw malformed('Unexpected end of JSON input', this.#before);
  }

  #skipString(bytes: Buffer, from: number): number {
    let at = this.#escaped ? from + 1 : from;
    this.#escaped = false;
    for (;;) {
      // Most strings are short: looking at a few bytes costs less than a search.
      const nearEnd = Math.min(at + 16, bytes.length);
      let found = at;
      while (found < nearEnd && bytes[found] !== quote) found++;
      if (found === nearEnd) found = bytes.indexOf(quote, nearEnd);
      const end = found === -1 ? bytes.length : found;
      let before = end;
      while (before > at && bytes[before - 1] === backslash) before--;
      const isEscaped = (end - before) % 2 === 1;
      if (found === -1) {
        this.#escaped = isEscaped;
        return end;
      }
      at = end + 1;
      if (isEscaped) continue;
      this.#inString = false;
      if (this.#onChild && this.#open.length === 1) this.#finish(at);
      return at;
    }
  }

  #skipNested(bytes: Buffer, from: number): number {
    for (let at = from; at < bytes.length; at++)
      switch (bytes[at]) {
        case quote:
          this.#inString = true;
          return at + 1;
        case openObject:
        case openList:
          this.#descend();
          break;
        case closeObject:
        case closeList:
          this.#open.pop();
          if (!this.#onChild || this.#open.length > 1) break;
          this.#finish(at + 1);
          return at + 1;
        case colon:
          this.#countMember();
          break;
        case comma:
          this.#countComma();
      }
    return bytes.length;
  }

  #descend(): void {
    const { depth, containers } = this.#limits;
    if (this.#open.push(0) > depth) throw this.#refusal('too_deep', depth, 'levels of nesting');
    if (++this.#containers > containers) throw this.#refusal('too_long', containers, 'arrays and objects');
  }

  #countMember(): void {
    const { members, membersOfObject } = this.#limits;
    const own = (this.#open.pop() ?? 0) + 1;
    this.#open.push(own);
    if (own > membersOfObject) throw this.#refusal('too_long', membersOfObject, 'members of one object');
    if (++this.#members > members) throw this.#refusal('too_long', members, 'members of objects');
  }

  #countComma(): void {
    const { values } = this.#limits;
    if (++this.#commas >= values) throw this.#refusal('too_long', values, 'values');
  }

  #refusal(type: 'too_deep' | 'too_long', limit: number, what: string): RequestValidationError {
    const ctx = { [type === 'too_deep' ? 'max_depth' : 'max_length']: limit };
    const msg = `The JSON has more than ${limit} ${what}, the limit.`;
    return new RequestValidationError([{ loc: this.#at, msg, type, input: null, ctx }]);
  }

  /** Handles one byte of the outermost value, outside strings. */
  #scanPunctuation(bytes: Buffer, at: number): number {
    if (this.#isBare) {
      let end = at;
      while (end < bytes.length && !endsBare(bytes[end] ?? 0)) end++;
      if (end === bytes.length) return end;
      this.#isBare = false;
      this.#finish(end);
      return end;
    }
    const byte = bytes[at] ?? 0;
    if (isSpace(byte)) return at + 1;
    const isEnd = byte === (this.#isObject ? closeObject : closeList);
    switch (this.#expected) {
      case 'opening':
        if (byte !== openObject && byte !== openList) break;
        this.#isObject = byte === openObject;
        this.#descend();
        this.#expected = 'first';
        return at + 1;
      case 'colon':
        if (byte !== colon) break;
        this.#countMember();
        this.#expected = 'value';
        return at + 1;
      case 'separator':
        if (byte === comma) {
          this.#countComma();
          this.#expected = 'value';
        } else if (isEnd) this.#expected = 'nothing';
        else break;
        return at + 1;
      case 'first':
        if (isEnd) {
          this.#expected = 'nothing';
          return at + 1;
        }
        if (this.#begins(byte, at)) return at + 1;
        break;
      case 'value':
        if (this.#begins(byte, at)) return at + 1;
    }
    throw malformed(`Unexpected token ${JSON.stringify(String.fromCharCode(byte))}`, this.#before + at);
  }

  /** Begins a key or a child. Returns false if none begins with this byte. */
  #begins(byte: number, at: number): boolean {
    const needsKey = this.#isObject && this.#key === null;
    if (needsKey ? byte !== quote : byte === colon || endsBare(byte)) return false;
    this.#start = this.#before + at;
    if (byte === quote) this.#inString = true;
    else if (byte === openObject || byte === openList) this.#descend();
    else this.#isBare = true;
    return true;
  }

  /** Ends the key or the child before this byte of the chunk. */
  #finish(at: number): void {
    const range = { start: this.#start, end: this.#before + at };
    if (this.#isObject && this.#key === null) {
      this.#key = range;
      this.#expected = 'colon';
      return;
    }
    this.#onChild?.({ ...range, key: this.#key });
    this.#key = null;
    this.#expected = 'separator';
  }
}

/** Refuses JSON text that exceeds the limits, before it is parsed. */
export function checkShape(text: Buffer, options?: Omit<JsonScannerOptions, 'onChild'>): void {
  new JsonScanner(options).push(text);
}

/** The parts of a long value are parsed one by one, so only the limits that hold for each part apply. */
const limitsOfParts: JsonLimits = {
  depth: requestLimits.depth,
  membersOfObject: requestLimits.membersOfObject,
  containers: Number.POSITIVE_INFINITY,
  members: Number.POSITIVE_INFINITY,
  values: Number.POSITIVE_INFINITY,
};

/** Yields the children of an object or list as they end, chunk by chunk. Works in time slices. */
export async function* childrenOf(
  source: ByteSource,
  range: Range,
  slices = new TimeSlices(),
): AsyncGenerator<Child[]> {
  let found: Child[] = [];
  const onChild = (child: Child) => void found.push(child);
  const scanner = new JsonScanner({ limits: limitsOfParts, start: range.start, onChild });
  for await (const piece of source.pieces(range)) {
    if (slices.over) await slices.pause();
    scanner.push(piece);
    if (found.length > 0) yield found;
    found = [];
  }
  scanner.end();
}

/** Adjacent children of at most `whole` bytes together, or one longer child. */
export interface Run extends Range {
  children: [Child, ...Child[]];
}

/** Groups the children of an object or list into runs, so that small ones are read together. */
export async function* runsOf(
  source: ByteSource,
  range: Range,
  { whole, slices }: { whole: number; slices: TimeSlices },
): AsyncGenerator<Run> {
  let run: Run | null = null;
  for await (const children of childrenOf(source, range, slices))
    for (const child of children)
      if (run && child.end - run.start <= whole) {
        run.end = child.end;
        run.children.push(child);
      } else {
        if (run) yield run;
        const { start } = child.key ?? child;
        run = { start, end: child.end, children: [child] };
      }
  if (run) yield run;
}
