import { exactJsonOf, exactText } from '../../util/exact-json.ts';
import type { CallForm } from '../call-forms.ts';
import type { ReasoningTags } from '../tokenizer/tokenizer.ts';
import { type CallPatterns, patternsOf } from './call-patterns.ts';
import { JsonValueScanner } from './json-value-scanner.ts';
import { ParameterReader } from './parameter-text.ts';
import { KeywordReader } from './python-literals.ts';

/** A piece of a reply. */
export type ReplyPiece =
  | { type: 'reasoning' | 'content'; text: string }
  | { type: 'call'; name: string; arguments: string }
  /** More of the latest call's arguments. */
  | { type: 'arguments'; text: string };

/** How a reply's text is read. A part that replies do not have is null. */
export interface ReplyFormat {
  calls: CallForm | null;
  /** The types of an argument of a function, where texts are written without quotes. Default: all types. */
  typesOf?: (name: string, argument: string) => ReadonlySet<string>;
  /** Whether a reply without a call at its beginning has none, although a tag occurs in it. Default false. */
  callsFirst?: boolean;
  reasoning: Pick<ReasoningTags, 'open' | 'close' | 'opened'> | null;
}

type State =
  | 'start'
  /** After the tag of reasoning: white space is left out. */
  | 'opened'
  | 'reasoning'
  /** After the reasoning, or between two bare calls: white space is left out. */
  | 'gap'
  | 'content'
  | 'call'
  | 'arguments'
  /** After the arguments of a call. */
  | 'after';

/**
 * Reads reasoning and calls out of a reply's text as it arrives. Text is withheld while it may be the beginning of a tag
 * or of a call. Arguments are passed on as written, also if they are no JSON; a call without a name is content. Arguments
 * in other notations become JSON, each as soon as it is whole; what is no argument stays as written, so that the arguments
 * are no JSON.
 */
export class ReplyReader {
  readonly #format: ReplyFormat;
  readonly #patterns: CallPatterns | null;
  #state: State;
  #buffer = '';
  #isCut = false;
  /** For arguments, and for a bare object that may become a call: `#scanned` of its characters have been read. */
  #scanner = new JsonValueScanner();
  #scanned = 0;
  /** For arguments that are no JSON, and how many of them came. */
  #members: { reader: KeywordReader | ParameterReader; count: number } | null = null;
  #calls = 0;
  /** The ids that the model wrote, by the number of the call. */
  readonly ids = new Map<number, string>();

  constructor(format: ReplyFormat) {
    this.#format = format;
    this.#patterns = format.calls && patternsOf(format.calls);
    this.#state = format.reasoning?.opened ? 'opened' : 'start';
  }

  push(text: string): ReplyPiece[] {
    this.#buffer += text;
    return this.#advance(false);
  }

  /** `isCut`: whether the reply would have gone on. What may then be the beginning of a tag or of a call is left out. */
  end({ isCut }: { isCut: boolean }): ReplyPiece[] {
    this.#isCut = isCut;
    return this.#advance(true);
  }

  #advance(isEnd: boolean): ReplyPiece[] {
    const pieces: ReplyPiece[] = [];
    for (let state: State | null = this.#state; state; ) {
      const next = this.#step(pieces, isEnd);
      if (next) this.#state = next;
      state = next;
    }
    return pieces;
  }

  /** Reads what is certain. Returns the next state, or null if more text is needed. */
  #step(pieces: ReplyPiece[], isEnd: boolean): State | null {
    const { reasoning } = this.#format;
    switch (this.#state) {
      case 'start': {
        const text = this.#buffer.trimStart();
        if (reasoning && text.startsWith(reasoning.open)) {
          this.#buffer = text.slice(reasoning.open.length);
          return 'opened';
        }
        if (text === '' ? !isEnd : reasoning?.open.startsWith(text) && this.#isUndecided(isEnd)) return null;
        return this.#callOrContent(text, isEnd);
      }
      case 'opened':
        this.#buffer = this.#buffer.trimStart();
        return this.#buffer === '' ? null : 'reasoning';
      case 'reasoning': {
        const found = this.#take(reasoning?.close ?? '', isEnd);
        if (found.text !== '') pieces.push({ type: 'reasoning', text: found.text });
        return found.tag ? 'gap' : null;
      }
      case 'gap': {
        const text = this.#buffer.replace(/^[\s;,]+/, '');
        if (text === '') return null;
        this.#buffer = text;
        return this.#callOrContent(text, isEnd);
      }
      case 'content': {
        const found = this.#take(this.#format.callsFirst ? '' : (this.#patterns?.tag ?? ''), isEnd);
        if (found.text !== '') pieces.push({ type: 'content', text: found.text });
        return found.tag ? 'call' : null;
      }
      case 'call':
        return this.#readCall(pieces, isEnd);
      case 'arguments': {
        if (this.#members) return this.#readMember(this.#members, pieces, isEnd);
        const length = this.#scanner.read(this.#buffer);
        const text = this.#buffer.slice(0, length);
        this.#buffer = this.#buffer.slice(length);
        if (text !== '') pieces.push({ type: 'arguments', text });
        return this.#scanner.ended ? 'after' : null;
      }
      case 'after':
        return this.#readAfter(pieces);
    }
  }

  /** Whether to hold back text that may be the beginning of a tag: more may come, or would have come. */
  #isUndecided(isEnd: boolean): boolean {
    return !isEnd || this.#isCut;
  }

  /** Whether a call begins here; null if that is not certain. Elsewhere in content, calls begin with their tag. */
  #callOrContent(text: string, isEnd: boolean): State | null {
    const tag = this.#patterns?.tag;
    if (tag === '') {
      this.#scanner = new JsonValueScanner(callFields);
      this.#scanned = 0;
      return text.startsWith('{') ? 'call' : 'content';
    }
    if (tag === undefined || !this.#format.callsFirst) return 'content';
    if (text.startsWith(tag)) {
      this.#buffer = text.slice(tag.length);
      return 'call';
    }
    return tag.startsWith(text) && this.#isUndecided(isEnd) ? null : 'content';
  }

  /** Takes the text before a tag, without its trailing white space. Without a tag: all text in which none can begin. */
  #take(tag: string, isEnd: boolean): { text: string; tag: boolean } {
    const at = tag === '' ? -1 : this.#buffer.indexOf(tag);
    if (at >= 0) {
      const text = this.#buffer.slice(0, at).trimEnd();
      this.#buffer = this.#buffer.slice(at + tag.length);
      return { text, tag: true };
    }
    const whole = this.#buffer.length;
    let certain = whole;
    if (tag !== '' && this.#isUndecided(isEnd)) {
      for (let length = Math.min(tag.length - 1, whole); length > 0; length--)
        if (tag.startsWith(this.#buffer.slice(-length))) {
          certain -= length;
          break;
        }
      if (!isEnd || certain < whole) certain = this.#buffer.slice(0, certain).trimEnd().length;
    }
    const text = this.#buffer.slice(0, certain);
    this.#buffer = this.#buffer.slice(certain);
    return { text, tag: false };
  }

  #readCall(pieces: ReplyPiece[], isEnd: boolean): State | null {
    const { tag = '', first, end: close = '' } = this.#patterns ?? {};
    const head = first?.exec(this.#buffer);
    if (head) return this.#begin(head, pieces);
    const isBare = tag === '';
    if (isBare) this.#scanned += this.#scanner.read(this.#buffer.slice(this.#scanned));
    // Without a mark at its end, what is no call ends where the next may begin.
    const end = isBare ? this.#scanned : this.#buffer.indexOf(close || tag);
    const isWhole = isBare ? this.#scanner.ended : end >= 0;
    const mayBeCall = !isBare || !this.#scanner.hasOtherField;
    if (!isWhole && mayBeCall && (!isEnd || this.#isCut)) return null;
    const closed = isBare ? '' : close;
    const body = isWhole ? this.#buffer.slice(0, end) : this.#buffer;
    this.#buffer = isWhole ? this.#buffer.slice(end + closed.length) : '';
    const call = mayBeCall ? callOf(body) : null;
    if (call) {
      this.#calls++;
      pieces.push(call);
      return 'gap';
    }
    pieces.push({ type: 'content', text: tag + body + (isWhole ? closed : '') });
    return 'content';
  }

  /** Begins a call whose head was read. */
  #begin({ 0: { length }, groups: { name = '', id } = {} }: RegExpExecArray, pieces: ReplyPiece[]): State {
    this.#buffer = this.#buffer.slice(length);
    this.#scanner = new JsonValueScanner();
    if (id !== undefined) this.ids.set(this.#calls, id);
    this.#calls++;
    const { calls, typesOf } = this.#format;
    const reader =
      calls?.arguments === 'python'
        ? new KeywordReader()
        : calls?.arguments === 'parameters'
          ? new ParameterReader((argument) => typesOf?.(name, argument) ?? allTypes)
          : null;
    this.#members = reader && { reader, count: 0 };
    pieces.push({
      type: 'call',
      name: this.#patterns?.isQuoted ? String(exactJsonOf(`"${name}"`) ?? name) : name,
      arguments: reader ? '{' : '',
    });
    return 'arguments';
  }

  #readAfter(pieces: ReplyPiece[]): State | null {
    const { next, end = '', id } = this.#patterns ?? {};
    const head = next?.exec(this.#buffer);
    const at = head ? 0 : this.#buffer.indexOf(end);
    if (at < 0) return null;
    const written = head?.groups?.before ?? id?.exec(this.#buffer)?.groups?.id;
    if (written !== undefined) this.ids.set(this.#calls - 1, written);
    if (head) return this.#begin(head, pieces);
    this.#buffer = this.#buffer.slice(at + end.length);
    return 'gap';
  }

  #readMember(
    members: { reader: KeywordReader | ParameterReader; count: number },
    pieces: ReplyPiece[],
    isEnd: boolean,
  ): State | null {
    const read = members.reader.next(this.#buffer);
    if (!read && (!isEnd || this.#isCut)) return null;
    const json = read ? read.json : this.#buffer;
    this.#buffer = read ? this.#buffer.slice(read.length) : '';
    const member = json === null ? '' : (members.count++ > 0 ? ',' : '') + json;
    const text = member + (read?.after === 'end' ? '}' : '');
    if (text !== '') pieces.push({ type: 'arguments', text });
    if (!read) return null;
    return read.after === 'more' ? 'arguments' : 'after';
  }
}

const allTypes: ReadonlySet<string> = new Set(['string', 'number', 'boolean', 'null', 'object', 'array']);

/** The fields of a bare call. Other objects may have a name too. */
const callFields: ReadonlySet<string> = new Set([
  'name',
  'arguments',
  'parameters',
  'type',
  'id',
  'function',
]);

/** A whole call whose fields have another order, or that has no arguments. */
function callOf(text: string): Extract<ReplyPiece, { type: 'call' }> | null {
  const value = exactJsonOf(text);
  const name = value instanceof Map ? value.get('name') : undefined;
  if (!(value instanceof Map) || typeof name !== 'string') return null;
  return {
    type: 'call',
    name,
    arguments: exactText(value.get('arguments') ?? value.get('parameters') ?? {}),
  };
}

export const isJson = (text: string): boolean => exactJsonOf(text) !== undefined;
