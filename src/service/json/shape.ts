import { requestLimits } from '../../contract/index.ts';
import { RequestValidationError, ServiceError } from '../errors.ts';

/** The error for a body that is not valid JSON. */
export function malformed(reason: string, at?: number): RequestValidationError {
  const place = at === undefined ? reason : `${reason} at byte ${at}`;
  return new RequestValidationError([
    {
      loc: ['body'],
      msg: `JSON decode error: ${place}`,
      type: 'json_invalid',
      input: null,
      ctx: { error: place },
    },
  ]);
}

export const tooDeep = (limit: number) =>
  new ServiceError(422, 'too_deep', `The body is nested too deeply: at most ${limit} levels are read.`);

export const tooManyMembers = (limit: number) =>
  new RequestValidationError([
    {
      loc: ['body'],
      msg: `is JSON of more than ${limit} members of one object, and that is the most; send a smaller value`,
      type: 'too_long',
      input: null,
      ctx: { max_length: limit },
    },
  ]);

/** Bounds on the structure of JSON text. */
export type JsonShape = Pick<
  typeof requestLimits,
  'depth' | 'containers' | 'members' | 'membersOfObject' | 'values'
>;

export interface JsonShapeOptions {
  /** Default: the limits of a body. */
  limits?: Readonly<Record<keyof JsonShape, number>>;
  /** Location of the text in the request, for errors. Default: the body. */
  at?: string[];
}

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const colon = 0x3a;
const [openObject, closeObject] = [0x7b, 0x7d];
const [openList, closeList] = [0x5b, 0x5d];

/**
 * Refuses JSON text that is nested too deeply or has too many values, before it is parsed: a parser takes
 * seconds for a million names, and recursive readers overflow the stack. Invalid JSON may pass; the parser
 * reports it. Bytes come in chunks cut anywhere.
 */
export class JsonShapeCheck {
  readonly #limits: Readonly<Record<keyof JsonShape, number>>;
  readonly #at: string[];
  /** Members so far of each open object (0 for a list). */
  #open: number[] = [];
  #containers = 0;
  #members = 0;
  #commas = 0;
  #inString = false;
  #escaped = false;

  constructor({ limits = requestLimits, at = ['body'] }: JsonShapeOptions = {}) {
    this.#limits = limits;
    this.#at = at;
  }

  /** Counts the next bytes. Throws if a limit is exceeded. */
  push(bytes: Buffer): void {
    for (let index = 0; index < bytes.length; index++) {
      if (this.#inString) index = this.#throughString(bytes, index);
      else this.#count(bytes[index]);
    }
  }

  /** Index of the string's last byte in this chunk. */
  #throughString(bytes: Buffer, from: number): number {
    let index = this.#escaped ? from + 1 : from;
    this.#escaped = false;
    for (;;) {
      const found = bytes.indexOf(quote, index);
      const end = found === -1 ? bytes.length : found;
      let before = end;
      while (before > index && bytes[before - 1] === backslash) before--;
      const isEscaped = (end - before) % 2 === 1;
      if (found === -1) {
        this.#escaped = isEscaped;
        return end;
      }
      if (!isEscaped) {
        this.#inString = false;
        return end;
      }
      index = end + 1;
    }
  }

  #count(byte: number | undefined): void {
    const { depth, containers, members, membersOfObject, values } = this.#limits;
    switch (byte) {
      case quote:
        this.#inString = true;
        break;
      case openList:
      case openObject:
        if (this.#open.push(0) > depth)
          throw this.#refusal('too_deep', `nested more than ${depth} deep`, depth);
        if (++this.#containers > containers)
          throw this.#refusal('too_long', `of more than ${containers} arrays and objects`, containers);
        break;
      case closeList:
      case closeObject:
        this.#open.pop();
        break;
      case colon: {
        const own = (this.#open.pop() ?? 0) + 1;
        this.#open.push(own);
        if (own > membersOfObject)
          throw this.#refusal(
            'too_long',
            `of more than ${membersOfObject} members of one object`,
            membersOfObject,
          );
        if (++this.#members > members)
          throw this.#refusal('too_long', `of more than ${members} members of objects`, members);
        break;
      }
      case comma:
        if (++this.#commas >= values)
          throw this.#refusal('too_long', `of more than ${values} values`, values);
    }
  }

  #refusal(type: 'too_deep' | 'too_long', what: string, limit: number): RequestValidationError {
    return new RequestValidationError([
      {
        loc: this.#at,
        msg: `is JSON ${what}, and that is the most; send a smaller value`,
        type,
        input: null,
        ctx: { [type === 'too_deep' ? 'max_depth' : 'max_length']: limit },
      },
    ]);
  }
}

/** The same check for a complete text. */
export function refuseHeavyJson(text: string, options?: JsonShapeOptions): void {
  new JsonShapeCheck(options).push(Buffer.from(text));
}
