import { randomUUID } from 'node:crypto';
import type { FinishReason, ResponseMessage, ToolCall } from '../../contract/index.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { type ChannelFormat, ChannelReader, marksOf } from './channel-reader.ts';
import type { TurnToolCall } from './conversation.ts';
import { isJson, type ReplyFormat, type ReplyPiece, ReplyReader } from './reply-reader.ts';
import { StopFilter, type Stops } from './stop-strings.ts';
import { type Piece, TokenReader } from './token-reader.ts';

/** What the latest tokens added to a reply. */
export interface ReplyDelta {
  reasoning: string;
  content: string;
  calls: { index: number; id?: string; name?: string; arguments: string }[];
}

interface ReplyEnd {
  finishReason: 'stop' | 'length';
  /** The stop string or stop token that ended it; null for the end token and for `length`. */
  stop: string | number | null;
}

export interface ReplyOptions {
  endToken: number;
  /** How its reasoning and its calls are written; null if it has none. */
  format: ReplyFormat | ChannelFormat | null;
  stops: Stops;
  /** What the output includes besides the text. */
  show: { special: boolean; spaces: boolean; stop: boolean; reasoning: boolean };
  echo: string;
}

/**
 * Parses the tokens of a reply as they arrive: reasoning, text and tool calls. Text is released in whole UTF-8 characters,
 * and withheld while it may be the beginning of a stop string.
 */
export class ReplyParser {
  readonly #options: ReplyOptions;
  readonly #reader: TokenReader;
  readonly #filter: StopFilter | null;
  readonly #ends: ReadonlySet<number>;
  readonly #replyReader: ReplyReader | ChannelReader | null;
  /** The token that ends a reply after a call, if there is one. */
  readonly #callEnd: number | null;
  /** The latest token if it ends the reply. It is read as text once another token follows. */
  #last: number | null = null;
  #reasoning = '';
  #content: string;
  readonly #calls: TurnToolCall[] = [];

  constructor(tokenizer: Tokenizer, options: ReplyOptions) {
    const { format, show, stops } = options;
    const channels = format && 'channels' in format ? format.channels : null;
    this.#options = options;
    const marks = channels ? marksOf(channels) : new Set<number>();
    this.#reader = new TokenReader(tokenizer, { showSpecial: show.special, spaces: show.spaces, marks });
    this.#filter = stops.strings.length > 0 ? new StopFilter(stops.strings) : null;
    this.#ends = new Set([options.endToken, ...stops.tokens]);
    this.#replyReader =
      format && ('channels' in format ? new ChannelReader(format, tokenizer) : new ReplyReader(format));
    this.#callEnd = channels?.call ?? null;
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
      else if (show.stop) rest.push(...this.#reader.read(this.#last));
    }
    rest.push(...this.#reader.finish());
    const stopText = typeof stop === 'string' ? stop : null;
    this.#add(this.#filter?.end(rest, stopText, { include: show.stop }) ?? rest, delta);
    const isCut = finishReason === 'length' || this.#isStopped(stop);
    if (this.#replyReader) this.#addRead(this.#replyReader.end({ isCut }), delta);
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
    return last && (!this.#isStopped(stop) || isJson(last.arguments)) ? 'tool_calls' : 'stop';
  }

  /** Whether it was stopped before its own end. */
  #isStopped(stop: ReplyEnd['stop']): boolean {
    return stop !== null && stop !== this.#callEnd;
  }

  #read(token: number, delta: ReplyDelta): void {
    const pieces = this.#reader.read(token);
    this.#add(this.#filter?.push(pieces) ?? pieces, delta);
  }

  #add(pieces: readonly Piece[], delta: ReplyDelta): void {
    for (const piece of pieces) {
      if (piece.type === 'mark') {
        if (this.#replyReader instanceof ChannelReader)
          this.#addRead(this.#replyReader.mark(piece.token), delta);
      } else if (piece.type === 'text' && this.#replyReader)
        this.#addRead(this.#replyReader.push(piece.text), delta);
      // A special token shown as text would break the JSON of the arguments.
      else if (piece.type === 'text' || this.#calls.length === 0)
        this.#writeText(piece.text, 'content', delta);
    }
  }

  #addRead(pieces: readonly ReplyPiece[], delta: ReplyDelta): void {
    for (const piece of pieces)
      if (piece.type === 'call') this.#beginCall(piece.name, piece.arguments, delta);
      else if (piece.type === 'arguments') this.#writeArguments(piece.text, delta);
      else this.#writeText(piece.text, piece.type, delta);
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
