import { requestLimits } from '../../contract/index.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import type { ByteSource, Range } from './byte-source.ts';
import { malformed, tooDeep, tooManyMembers } from './shape.ts';

/** The byte range of a member's value or of a list element. */
export interface Child extends Range {
  /** Byte range of the member's name with its quotes; null for a list element. */
  key: Range | null;
}

/** Values nested deeper than this are refused; the value itself is level 1. */
export const deepestNesting = requestLimits.depth;

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const colon = 0x3a;
const [openObject, closeObject] = [0x7b, 0x7d];
const [openList, closeList] = [0x5b, 0x5d];

const endsBare = (byte: number) =>
  byte === comma || byte === closeObject || byte === closeList || isSpace(byte);

const isSpace = (byte: number) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;

/** Objects with more members are refused, at every level. */
export const mostMembers = requestLimits.membersOfObject;

/** Called at the end of each child with the ranges of its value and name. */
export type TellChild = (start: number, end: number, key: Range | null) => void;

/** What the scanner expects next. A list may end at `first`, but not at `value`. */
type Expected = 'opening' | 'first' | 'value' | 'colon' | 'separator' | 'nothing';

/**
 * Finds the members of an object or the elements of a list without parsing them: within a child it follows
 * only strings and nesting. It checks the punctuation between children, so if each child is valid JSON,
 * the whole is. Bytes come in chunks cut anywhere.
 */
export class ChildScanner {
  readonly #tell: TellChild;
  /** Bytes before the current chunk. */
  #before: number;
  #awaited: Expected = 'opening';
  #isObject = false;
  /** Nesting depth within the child. */
  #depth = 0;
  /** Members so far of each open object (0 for a list), the outermost value's first. */
  readonly #members = [0];
  /** Start of the current child or key; -1 between them. */
  #start = -1;
  #inString = false;
  #escaped = false;
  /** The child is a number or a literal, which ends where something else begins. */
  #isBare = false;
  #key: Range | null = null;

  /** @param start Offset of the value in its source. */
  constructor(start: number, tell: TellChild) {
    this.#before = start;
    this.#tell = tell;
  }

  /** Scans the next bytes. Throws the errors of `malformed` and `tooDeep`. */
  push(bytes: Uint8Array): void {
    let at = 0;
    while (at < bytes.length) {
      if (this.#inString) at = this.#throughString(bytes, at);
      else if (this.#depth > 0) at = this.#throughNested(bytes, at);
      else at = this.#between(bytes, at);
    }
    this.#before += bytes.length;
  }

  /** Throws if the value is incomplete. */
  end(): void {
    if (this.#awaited !== 'nothing') throw malformed('Unexpected end of JSON input', this.#before);
  }

  #throughString(bytes: Uint8Array, from: number): number {
    let at = from;
    if (this.#escaped) {
      this.#escaped = false;
      at++;
    }
    for (; at < bytes.length; at++) {
      const byte = bytes[at];
      if (byte === backslash) {
        at++;
        if (at === bytes.length) this.#escaped = true;
      } else if (byte === quote) {
        this.#inString = false;
        at++;
        if (this.#depth === 0) this.#finish(at);
        return at;
      }
    }
    return bytes.length;
  }

  #throughNested(bytes: Uint8Array, from: number): number {
    for (let at = from; at < bytes.length; at++) {
      const byte = bytes[at];
      if (byte === quote) {
        this.#inString = true;
        return at + 1;
      }
      if (byte === openObject || byte === openList) {
        this.#descend();
      } else if (byte === closeObject || byte === closeList) {
        this.#depth--;
        this.#members.pop();
        if (this.#depth > 0) continue;
        this.#finish(at + 1);
        return at + 1;
      } else if (byte === colon) this.#countMember();
    }
    return bytes.length;
  }

  #descend(): void {
    this.#depth++;
    this.#members.push(0);
    if (this.#depth >= deepestNesting) throw tooDeep(deepestNesting);
  }

  #countMember(): void {
    const members = (this.#members.pop() ?? 0) + 1;
    if (members > mostMembers) throw tooManyMembers(mostMembers);
    this.#members.push(members);
  }

  /** Handles one byte outside strings and nested values. */
  #between(bytes: Uint8Array, at: number): number {
    const byte = bytes[at] ?? 0;
    if (this.#isBare) {
      let end = at;
      while (end < bytes.length && !endsBare(bytes[end] ?? 0)) end++;
      if (end === bytes.length) return end;
      this.#isBare = false;
      this.#finish(end);
      return end;
    }
    if (isSpace(byte)) return at + 1;
    switch (this.#awaited) {
      case 'opening':
        if (byte !== openObject && byte !== openList) break;
        this.#isObject = byte === openObject;
        this.#awaited = 'first';
        return at + 1;
      case 'colon':
        if (byte !== colon) break;
        this.#countMember();
        this.#awaited = 'value';
        return at + 1;
      case 'separator':
        if (byte === comma) this.#awaited = 'value';
        else if (byte === this.#closer) this.#awaited = 'nothing';
        else break;
        return at + 1;
      case 'first':
        if (byte === this.#closer) {
          this.#awaited = 'nothing';
          return at + 1;
        }
        return this.#begin(byte, at);
      case 'value':
        return this.#begin(byte, at);
    }
    throw malformed(`Unexpected token ${JSON.stringify(String.fromCharCode(byte))}`, this.#before + at);
  }

  get #closer(): number {
    return this.#isObject ? closeObject : closeList;
  }

  #begin(byte: number, at: number): number {
    const needsKey = this.#isObject && this.#key === null;
    const mayBegin = needsKey
      ? byte === quote
      : byte !== comma && byte !== colon && byte !== closeObject && byte !== closeList;
    if (!mayBegin)
      throw malformed(`Unexpected token ${JSON.stringify(String.fromCharCode(byte))}`, this.#before + at);
    this.#start = this.#before + at;
    if (byte === quote) this.#inString = true;
    else if (byte === openObject || byte === openList) this.#descend();
    else this.#isBare = true;
    return at + 1;
  }

  /** Ends the key or the child before this byte of the chunk. */
  #finish(at: number): void {
    const start = this.#start;
    const end = this.#before + at;
    this.#start = -1;
    if (this.#isObject && this.#key === null) {
      this.#key = { start, end };
      this.#awaited = 'colon';
      return;
    }
    this.#tell(start, end, this.#key);
    this.#key = null;
    this.#awaited = 'separator';
  }
}

/** Yields the children of an object or list as they end. Works in time slices. */
export async function* childrenOf(
  source: ByteSource,
  range: Range,
  slices = new TimeSlices(),
): AsyncGenerator<Child> {
  const found: Child[] = [];
  const scanner = new ChildScanner(range.start, (start, end, key) => found.push({ start, end, key }));
  for await (const piece of source.pieces(range)) {
    if (slices.over) await slices.pause();
    scanner.push(piece);
    for (const child of found.splice(0)) yield child;
  }
  scanner.end();
}
