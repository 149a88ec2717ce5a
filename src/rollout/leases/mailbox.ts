import { deserialize, serialize } from 'node:v8';

/** Messages in order, the first with the number `from`. */
export interface Batch {
  from: number;
  messages: readonly Uint8Array[];
}

/** Largest body in either direction. */
export const maxBodyBytes = 2 ** 28;

const maxMessageBytes = maxBodyBytes - 2 ** 20;

/** Most bytes of a batch after its first message. */
const batchBytes = 2 ** 22;

/**
 * Messages for the other side. They are kept until it has said that they arrived, and are sent again after a cut
 * connection: together with an Inbox, each arrives once and in order.
 */
export class Outbox<Message> {
  #from = 0;
  #messages: Uint8Array[] = [];
  #more = Promise.withResolvers<void>();

  /** @throws DataCloneError; RangeError for a message that no body can hold. */
  push(message: Message): void {
    const bytes = serialize(message);
    if (bytes.byteLength > maxMessageBytes)
      throw new RangeError(`it has ${bytes.byteLength} bytes, and at most ${maxMessageBytes} can be sent`);
    this.#messages.push(bytes);
    this.#more.resolve();
  }

  get isEmpty(): boolean {
    return this.#messages.length === 0;
  }

  /** Messages that are not known to have arrived. */
  get left(): readonly Uint8Array[] {
    return this.#messages;
  }

  /** Resolves when there is a message to send. */
  get more(): Promise<void> {
    return this.#more.promise;
  }

  /** Ends a wait for `more`, although there may be nothing to send. */
  wake(): void {
    this.#more.resolve();
  }

  /** The next messages that are not known to have arrived. */
  batch(): Batch {
    let bytes = 0;
    const end = this.#messages.findIndex((message, at) => {
      bytes += message.byteLength;
      return at > 0 && bytes > batchBytes;
    });
    return { from: this.#from, messages: end < 0 ? [...this.#messages] : this.#messages.slice(0, end) };
  }

  /** Forgets the messages before this number, which have arrived. */
  acknowledge(received: number): void {
    const arrived = Math.min(received - this.#from, this.#messages.length);
    if (arrived <= 0) return;
    this.#messages.splice(0, arrived);
    this.#from += arrived;
    if (this.isEmpty) this.#more = Promise.withResolvers();
  }
}

/** Messages of the other side: each once, although batches may arrive twice. */
export class Inbox {
  /** Number of messages that have arrived. */
  received = 0;

  /** The messages that have not arrived before. */
  open({ from, messages }: Batch): readonly Uint8Array[] {
    // The other side never forgets what has not arrived, so a gap is no batch of it.
    const fresh = from > this.received ? [] : messages.slice(this.received - from);
    this.received += fresh.length;
    return fresh;
  }
}

/** What a message holds. The other side's version is the same, but it may be anybody's program: check what it says. */
export const readMessage = (bytes: Uint8Array): unknown => deserialize(bytes);

/** Version of the format of structured clones. A program cannot read a newer version. */
export const cloneFormat = (): number => serialize(null)[1] ?? 0;
