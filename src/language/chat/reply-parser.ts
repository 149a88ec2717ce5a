import { randomUUID } from 'node:crypto';
import type { FinishReason, ResponseMessage, ToolCall } from '../../contract/index.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { StopFilter, type Stops } from './stop-strings.ts';
import { type ReplyPiece, type TextReplyFormat, TextReplyReader } from './text-reply-reader.ts';
import { type Mark, type Piece, TokenReader } from './token-reader.ts';

/** What the latest tokens added to a reply. */
export interface ReplyDelta {
  reasoning: string;
  content: string;
  calls: { index: number; id?: string; name?: string; arguments: string }[];
}

/** What ended a reply. */
interface ReplyEnd {
  finishReason: 'stop' | 'length';
  /** The stop string or stop token that ended it; null for the end token and for `length`. */
  stop: string | number | null;
}

export interface ReplyOptions {
  endToken: number;
  /** Null: replies cannot contain calls, and the token has no meaning. */
  callToken: number | null;
  /** The tokens around reasoning; null if the reply has no reasoning. */
  reasoning: { open: number; close: number } | null;
  /** Reasoning and calls that are written as text; null if there are none. */
  text: TextReplyFormat | null;
  stops: Stops;
  /** What the output includes besides the text. */
  show: { special: boolean; spaces: boolean; stop: boolean; reasoning: boolean };
  /** Text that the content begins with. */
  echo: string;
}

interface ReadCall {
  id: string;
  /** Text before the first brace. */
  name: string;
  arguments: string;
}

/**
 * Parses the tokens of a reply as they arrive: reasoning, text, and tool calls written `name{...}` after the call
 * token, or as text. A call after the token without arguments is dropped. Text is released in whole UTF-8 characters, and withheld while it may be
 * the beginning of a stop string.
 */
export class ReplyParser {
  readonly #options: ReplyOptions;
  readonly #reader: TokenReader;
  readonly #filter: StopFilter | null;
  readonly #ends: ReadonlySet<number>;
  readonly #textReader: TextReplyReader | null;
  /** The latest token if it ends the reply. It is read as text once another token follows. */
  #last: number | null = null;
  #inReasoning = false;
  #reasoning = '';
  #content: string;
  /** Calls whose name is complete. */
  readonly #calls: ReadCall[] = [];
  /** The name of the current call so far; null outside of names. */
  #name: string | null = null;

  constructor(tokenizer: Tokenizer, options: ReplyOptions) {
    const { callToken, reasoning, show, stops } = options;
    const marks = new Map<number, Mark>();
    if (callToken !== null) marks.set(callToken, 'call');
    if (reasoning) marks.set(reasoning.open, 'reasoning').set(reasoning.close, 'answer');
    this.#options = options;
    this.#reader = new TokenReader(tokenizer, { marks, showSpecial: show.special, spaces: show.spaces });
    this.#filter = stops.strings.length > 0 ? new StopFilter(stops.strings) : null;
    this.#ends = new Set([options.endToken, ...stops.tokens]);
    this.#textReader = options.text && new TextReplyReader(options.text);
    this.#content = options.echo;
  }

  push(tokens: readonly number[]): ReplyDelta {
    const delta: ReplyDelta = { reasoning: '', content: '', calls: [] };
    for (const token of tokens) {
      if (this.#last !== null) this.#read(this.#last, delta);
      this.#last = this.#ends.has(token) ? token : null;
      if (this.#last === null) this.#read(token, delta);
    }
    return delta;
  }

  /**
   * Releases the withheld text once the reply has ended, without the stop string or stop token unless that is shown.
   */
  end({ finishReason, stop }: ReplyEnd): ReplyDelta {
    const delta: ReplyDelta = { reasoning: '', content: '', calls: [] };
    const { show } = this.#options;
    const rest: Piece[] = [];
    if (this.#last !== null) {
      const ended = finishReason === 'stop' && typeof stop !== 'string';
      if (!ended) this.#read(this.#last, delta);
      else if (show.stop) rest.push(...this.#reader.readAsText(this.#last));
    }
    rest.push(...this.#reader.finish());
    const stopText = typeof stop === 'string' ? stop : null;
    this.#add(this.#filter?.end(rest, stopText, { include: show.stop }) ?? rest, delta);
    const isCut = finishReason === 'length' || stop !== null;
    if (this.#textReader) this.#addRead(this.#textReader.end({ isCut }), delta);
    return delta;
  }

  message(): ResponseMessage {
    const calls = this.#calls.map(
      (call): ToolCall => ({
        id: call.id,
        type: 'function',
        function: { name: call.name, arguments: call.arguments },
      }),
    );
    return {
      role: 'assistant',
      content: this.#content === '' && calls.length > 0 ? null : this.#content,
      refusal: null,
      // Absent rather than empty, as in a stream.
      ...(this.#reasoning === '' ? {} : { reasoning: this.#reasoning, reasoning_content: this.#reasoning }),
      ...(calls.length > 0 ? { tool_calls: calls } : {}),
    };
  }

  /** Call it once the reply has ended. `tool_calls` only if no stop string or stop token cut a call. */
  finishReason({ finishReason, stop }: ReplyEnd): FinishReason {
    if (finishReason === 'length') return 'length';
    const last = this.#calls.at(-1);
    return last && (stop === null || isJson(last.arguments)) ? 'tool_calls' : 'stop';
  }

  #read(token: number, delta: ReplyDelta): void {
    const pieces = this.#reader.read(token);
    this.#add(this.#filter?.push(pieces) ?? pieces, delta);
  }

  #add(pieces: readonly Piece[], delta: ReplyDelta): void {
    for (const piece of pieces) {
      if (piece.type !== 'mark') this.#write(piece, delta);
      else if (piece.mark === 'call') this.#name = '';
      else this.#inReasoning = piece.mark === 'reasoning';
    }
  }

  /** Adds pieces of a reply whose reasoning and calls are text. */
  #addRead(pieces: readonly ReplyPiece[], delta: ReplyDelta): void {
    for (const piece of pieces)
      if (piece.type === 'call') this.#beginCall(piece.name, piece.arguments, delta);
      else if (piece.type === 'arguments') this.#writeArguments(piece.text, delta);
      else this.#writeText(piece.text, piece.type, delta);
  }

  #write({ type, text }: Exclude<Piece, { type: 'mark' }>, delta: ReplyDelta): void {
    if (this.#textReader && type === 'text') this.#addRead(this.#textReader.push(text), delta);
    else if (this.#name !== null || this.#calls.length > 0) {
      // A special token shown as text would break the JSON of the arguments.
      if (type === 'text') this.#writeCall(text, delta);
    } else this.#writeText(text, this.#inReasoning ? 'reasoning' : 'content', delta);
  }

  #writeText(text: string, part: 'reasoning' | 'content', delta: ReplyDelta): void {
    if (part === 'content') {
      this.#content += text;
      delta.content += text;
    } else if (this.#options.show.reasoning) {
      this.#reasoning += text;
      delta.reasoning += text;
    }
  }

  #writeCall(text: string, delta: ReplyDelta): void {
    if (this.#name === null) {
      this.#writeArguments(text, delta);
      return;
    }
    const brace = text.indexOf('{');
    this.#name += brace < 0 ? text : text.slice(0, brace);
    if (brace < 0) return;
    this.#beginCall(this.#name, text.slice(brace), delta);
    this.#name = null;
  }

  #beginCall(name: string, text: string, delta: ReplyDelta): void {
    const call = { id: `call_${randomUUID().replaceAll('-', '')}`, name, arguments: text };
    delta.calls.push({ index: this.#calls.push(call) - 1, ...call });
  }

  #writeArguments(text: string, delta: ReplyDelta): void {
    const index = this.#calls.length - 1;
    const call = this.#calls[index];
    if (!call) return;
    call.arguments += text;
    const last = delta.calls.at(-1);
    if (last?.index === index) last.arguments += text;
    else delta.calls.push({ index, arguments: text });
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
