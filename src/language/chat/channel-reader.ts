import type { Channels, Tokenizer } from '../tokenizer/tokenizer.ts';
import type { ReplyPiece } from './reply-reader.ts';
import { TokenReader } from './token-reader.ts';

/** How a reply of messages in channels is read. */
export interface ChannelFormat {
  channels: Channels;
  /** Whether a message to somebody is a call. If not, its text is content. */
  mayCall: boolean;
  /** The tokens of the prompt after its last `start`: the role of the reply, and what the prompt has written of it. */
  opening: readonly number[];
}

type State =
  /** Before the first token of a header. A reply without a header is content. */
  | 'begin'
  /** In a header, before and after the token `channel`. */
  | 'role'
  | 'channel'
  /** In a message, whose texts are of this kind. */
  | 'reasoning'
  | 'content'
  | 'arguments'
  /** After a message. */
  | 'between';

/**
 * Reads the messages of a reply: those of the channel `analysis` are reasoning, those to somebody are calls, all others are
 * content, also what has no header. Tokens mark headers and ends, so no text can forge them. Headers are withheld until they
 * are whole.
 */
export class ChannelReader {
  readonly #format: ChannelFormat;
  #state: State = 'begin';
  #role = '';
  #channel = '';
  /** The kinds of text that an earlier message has, which a line break divides. */
  readonly #ended = new Set<State>();
  #isNew = false;

  /** Begins where the prompt ends. */
  constructor(format: ChannelFormat, tokenizer: Tokenizer) {
    this.#format = format;
    const reader = new TokenReader(tokenizer, {
      showSpecial: false,
      spaces: false,
      marks: marksOf(format.channels),
    });
    if (format.opening.length === 0) return;
    this.#state = 'role';
    for (const piece of [...format.opening.flatMap((token) => reader.read(token)), ...reader.finish()])
      if (piece.type === 'mark') this.mark(piece.token);
      else this.push(piece.text);
    this.#isNew = false;
    if (this.#state !== 'role') return;
    this.#state = 'begin';
    this.#role = '';
  }

  push(text: string): ReplyPiece[] {
    switch (this.#state) {
      case 'begin':
        this.#role += text;
        return mayBeRecipient.test(this.#role) ? [] : this.#strayText();
      case 'role':
        this.#role += text;
        return [];
      case 'channel':
        this.#channel += text;
        return [];
      case 'between':
        this.#role = text;
        return this.#strayText();
      case 'arguments':
        return [{ type: 'arguments', text }];
      default:
        return this.#write(this.#state, text);
    }
  }

  /** Reads one of the tokens of `Channels`. */
  mark(token: number): ReplyPiece[] {
    const { start, channel, message, constrain } = this.#format.channels;
    const isHeader = this.#state === 'begin' || this.#state === 'role' || this.#state === 'channel';
    if (token === message) return this.#begin();
    if (token === constrain && this.#state === 'channel') this.#channel += ' ';
    else if (token === channel && (isHeader || this.#state === 'between')) this.#enter('channel');
    else if (token === start) this.#enter('role');
    else if (token !== constrain && token !== channel && !isHeader) this.#enter('between');
    return [];
  }

  /** A header without its message is left out. `isCut`: whether the reply would have gone on. */
  end({ isCut }: { isCut: boolean }): ReplyPiece[] {
    return isCut || this.#state !== 'begin' || this.#role === '' ? [] : this.#strayText();
  }

  #enter(state: 'role' | 'channel' | 'between'): void {
    if (state !== 'channel') this.#role = '';
    this.#channel = '';
    this.#state = state;
  }

  /** Begins the message whose header is whole. */
  #begin(): ReplyPiece[] {
    const [, to] = /(?:^|\s)to=(\S+)/.exec(`${this.#role} ${this.#channel}`) ?? [];
    const isCall = to !== undefined && this.#format.mayCall && !people.has(to);
    const [channel] = this.#channel.trim().split(/\s/);
    this.#role = '';
    this.#channel = '';
    this.#state = isCall ? 'arguments' : channel === 'analysis' ? 'reasoning' : 'content';
    this.#isNew = true;
    return isCall ? [{ type: 'call', name: to.replace(/^functions\./, ''), arguments: '' }] : [];
  }

  #strayText(): ReplyPiece[] {
    const text = this.#role;
    this.#role = '';
    this.#state = 'content';
    this.#isNew = true;
    return this.#write('content', text);
  }

  #write(type: 'reasoning' | 'content', text: string): ReplyPiece[] {
    const apart = this.#isNew && this.#ended.has(type) ? '\n' : '';
    this.#isNew = false;
    this.#ended.add(type);
    return [{ type, text: apart + text }];
  }
}

/** The tokens that a reader of channels reads. */
export const marksOf = (channels: Channels): ReadonlySet<number> =>
  new Set(Object.values(channels).filter((token) => token !== null));

/** Whether a header may begin so after the role: with nothing, or with ` to=` and a name. */
const mayBeRecipient = /^\s*(?:t|to|to=\S*\s*)?$/;

/** Recipients of messages that are not calls. */
const people: ReadonlySet<string> = new Set(['assistant', 'user', 'all']);
