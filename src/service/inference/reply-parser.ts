import { randomUUID } from 'node:crypto';
import type { FinishReason, ResponseMessage, ToolCall } from '../../contract/index.ts';
import type { Generation, Tokenizer } from '../../engines/engine.ts';

/** What further tokens added to a reply. */
export interface ReplyDelta {
  content: string;
  calls: { index: number; id?: string; name?: string; arguments: string }[];
}

interface OpenCall {
  id: string;
  /** Text up to the first brace; complete once `arguments` has begun. */
  name: string;
  arguments: string;
}

/**
 * Reads the tokens of a reply as they come: text, and tool calls written `name{...}` after the call token. Text is
 * given out on the borders of UTF-8 characters, and withheld while it may be the beginning of a stop string.
 */
export class ReplyParser {
  readonly #tokenizer: Tokenizer;
  readonly #callToken: number | null;
  readonly #stopStrings: readonly string[];
  readonly #stopTokens: readonly number[];
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  #content = '';
  #withheld = '';
  readonly #calls: OpenCall[] = [];

  /** `callToken` null: replies cannot hold calls, and the token means nothing. */
  constructor(
    tokenizer: Tokenizer,
    callToken: number | null,
    stops: { strings: readonly string[]; tokens: readonly number[] },
  ) {
    this.#tokenizer = tokenizer;
    this.#callToken = callToken;
    this.#stopStrings = stops.strings;
    this.#stopTokens = stops.tokens;
  }

  push(tokens: readonly number[]): ReplyDelta {
    const delta: ReplyDelta = { content: '', calls: [] };
    let run: number[] = [];
    for (const token of tokens) {
      // Ends the reply, and like the end token it is no text of it.
      if (this.#stopTokens.includes(token)) continue;
      if (token !== this.#callToken) {
        run.push(token);
        continue;
      }
      this.#add(this.#decode(run) + this.#finishText(), delta, true);
      run = [];
      this.#calls.push({ id: `call_${randomUUID().replaceAll('-', '')}`, name: '', arguments: '' });
    }
    this.#add(this.#decode(run), delta, false);
    return delta;
  }

  /** What was withheld, now that the reply has ended; without the stop string that ended it. */
  end(stop: string | number | null): ReplyDelta {
    const delta: ReplyDelta = { content: '', calls: [] };
    this.#withheld += this.#finishText();
    if (typeof stop === 'string') {
      const position = this.#withheld.indexOf(stop);
      if (position >= 0) this.#withheld = this.#withheld.slice(0, position);
    }
    this.#add('', delta, true);
    const index = this.#calls.length - 1;
    const cutShort = this.#calls[index];
    if (cutShort?.arguments === '')
      delta.calls.push({ index, id: cutShort.id, name: cutShort.name, arguments: '' });
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
    const content = this.#content === '' && calls.length > 0 ? null : this.#content;
    return calls.length > 0
      ? { role: 'assistant', content, tool_calls: calls }
      : { role: 'assistant', content };
  }

  finishReason(generation: Pick<Generation, 'finishReason'>): FinishReason {
    if (generation.finishReason === 'length') return 'length';
    return this.#calls.length > 0 ? 'tool_calls' : 'stop';
  }

  #add(text: string, delta: ReplyDelta, whole: boolean): void {
    this.#withheld += text;
    const keep = whole ? 0 : this.#possibleStop(this.#withheld);
    const given = this.#withheld.slice(0, this.#withheld.length - keep);
    this.#withheld = keep === 0 ? '' : this.#withheld.slice(-keep);
    if (given === '') return;
    const index = this.#calls.length - 1;
    const call = this.#calls[index];
    if (!call) {
      this.#content += given;
      delta.content += given;
      return;
    }
    const started = call.arguments !== '';
    const brace = started ? 0 : given.indexOf('{');
    if (brace < 0) {
      call.name += given;
      return;
    }
    call.name += given.slice(0, brace);
    const argumentsText = given.slice(brace);
    call.arguments += argumentsText;
    delta.calls.push(
      started
        ? { index, arguments: argumentsText }
        : { index, id: call.id, name: call.name, arguments: argumentsText },
    );
  }

  /** Length of the longest end of the text that may be, or begin, a stop string. */
  #possibleStop(text: string): number {
    let longest = 0;
    for (const stop of this.#stopStrings) {
      const position = text.indexOf(stop);
      if (position >= 0) longest = Math.max(longest, text.length - position);
      for (let length = Math.min(stop.length - 1, text.length); length > longest; length--)
        if (stop.startsWith(text.slice(text.length - length))) longest = length;
    }
    return longest;
  }

  #decode(tokens: readonly number[]): string {
    if (tokens.length === 0) return '';
    const pieces = tokens.map((token) => this.#tokenizer.bytes(token));
    return this.#decoder.decode(Buffer.concat(pieces), { stream: true });
  }

  #finishText(): string {
    return this.#decoder.decode();
  }
}
