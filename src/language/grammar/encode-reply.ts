import { LanguageError } from '../error.ts';
import type { ChatFormat, Tokenizer } from '../tokenizer/tokenizer.ts';
import type { LimitedReasoning, Reply } from './constraint.ts';
import type { CompiledConstraint, ConstraintState } from './constraint-state.ts';
import type { TokenTrie } from './token-trie.ts';

/**
 * The tokens of a reply as sampling under its constraint would produce them, including the end token. Forced tokens are
 * taken as they are. At a decision, the longest legal token that matches is taken; in free text the one of the tokenizer's
 * encoding. `compiled` is the reply's compiled constraint.
 * @throws LanguageError that shows where the reply leaves its constraint.
 */
export function encodeReply(
  reply: Reply,
  compiled: CompiledConstraint | null,
  tokenizer: Tokenizer,
  format: Pick<ChatFormat, 'endToken'>,
): number[] {
  const parts = joinTexts(reply.parts);
  if (!compiled) {
    const tokens = parts.flatMap((part) => (typeof part === 'string' ? tokenizer.encode(part) : [part]));
    return [...tokens, reply.end ?? format.endToken];
  }
  const { reasoning } = reply.constraint ?? {};
  if (reasoning) checkReasoningLength(parts, reasoning, tokenizer);
  const reader = new WrittenReply(parts, tokenizer, format.endToken);
  const state = compiled.start();
  const tokens: number[] = [];
  for (;;) {
    const forced = state.takeForced();
    for (const token of forced) {
      reader.read(token);
      tokens.push(token);
    }
    if (state.ended) return tokens;
    const token = reader.decide(state, compiled.trie);
    reader.read(token);
    state.accept(token);
    tokens.push(token);
    if (state.ended) return tokens;
  }
}

/** Refuses reasoning above the limit: the tokenizer's encoding cannot be cut to fit it. */
function checkReasoningLength(
  [first]: Reply['parts'],
  { before, close, limit }: LimitedReasoning,
  tokenizer: Tokenizer,
): void {
  if (typeof first !== 'string' || !first.startsWith(before)) return;
  const [written = ''] = first.slice(before.length).split(close);
  const { length } = tokenizer.encodeExactly(written);
  if (length > limit)
    throw new LanguageError(
      'reasoning_too_long',
      `The reply's reasoning has ${length} tokens, but its constraint allows at most ${limit}. Shorten it, or raise reasoning_effort.`,
    );
}

function joinTexts(parts: Reply['parts']): Reply['parts'] {
  const joined: Reply['parts'] = [];
  for (const part of parts) {
    const last = joined.at(-1);
    if (typeof part === 'string' && typeof last === 'string') joined[joined.length - 1] = last + part;
    else if (part !== '') joined.push(part);
  }
  return joined;
}

/** What is left of a reply while its tokens are found. */
class WrittenReply {
  readonly #parts: (Buffer | number)[];
  readonly #tokenizer: Tokenizer;
  readonly #endToken: number;
  #part = 0;
  #offset = 0;
  /** The tokenizer's encoding of the current part from some offset on: each token by its own offset. */
  #usual = new Map<number, number>();

  constructor(parts: Reply['parts'], tokenizer: Tokenizer, endToken: number) {
    const { missingBytes } = tokenizer;
    const isWritable = (byte: number) => !missingBytes.has(byte);
    this.#parts = parts
      .map((part) => (typeof part === 'string' ? Buffer.from(Buffer.from(part).filter(isWritable)) : part))
      // A text may lose all of its bytes.
      .filter((part) => typeof part === 'number' || part.length > 0);
    this.#tokenizer = tokenizer;
    this.#endToken = endToken;
  }

  /** The token to take at a decision. */
  decide(state: ConstraintState, trie: TokenTrie): number {
    const part = this.#parts[this.#part] ?? this.#endToken;
    const legal = state.legal();
    if (typeof part === 'number')
      return legal.has(part) ? part : this.#fail(`${this.#tokenizer.text(part)} is not legal`);
    const usual = state.freeText ? this.#usualToken(part) : -1;
    if (usual >= 0 && legal.has(usual)) return usual;
    const longest = trie.longestToken(legal, part, this.#offset);
    return longest >= 0 ? longest : this.#fail('no legal token fits');
  }

  #usualToken(part: Buffer): number {
    if (!this.#usual.has(this.#offset)) {
      this.#usual = new Map();
      let at = this.#offset;
      for (const token of this.#tokenizer.encodeExactly(part.subarray(at).toString('utf8'))) {
        this.#usual.set(at, token);
        at += this.#tokenizer.bytes(token).length;
      }
    }
    return this.#usual.get(this.#offset) ?? -1;
  }

  /** Moves past a token, which must match the reply. */
  read(token: number): void {
    const part = this.#parts[this.#part] ?? this.#endToken;
    const bytes = this.#tokenizer.bytes(token);
    const fits = typeof part === 'number' ? part === token : bytes.length > 0 && this.#matches(part, bytes);
    if (!fits) this.#fail(`the constraint requires ${JSON.stringify(this.#tokenizer.text(token))}`);
    this.#offset += bytes.length;
    if (typeof part !== 'number' && this.#offset < part.length) return;
    this.#part++;
    this.#offset = 0;
    this.#usual = new Map();
  }

  #matches(part: Buffer, bytes: Uint8Array): boolean {
    if (this.#offset + bytes.length > part.length) return false;
    for (let index = 0; index < bytes.length; index++)
      if (part[this.#offset + index] !== bytes[index]) return false;
    return true;
  }

  #fail(what: string): never {
    const part = this.#parts[this.#part] ?? this.#endToken;
    const text = (bytes: Buffer) => JSON.stringify(bytes.toString('utf8'));
    const position =
      typeof part === 'number'
        ? `at ${this.#tokenizer.text(part)}`
        : `at ${text(part.subarray(this.#offset, this.#offset + 40))}, after ${text(part.subarray(0, this.#offset))}`;
    throw new LanguageError(
      'reply_outside_constraint',
      `The reply leaves its constraint ${position}: ${what}.`,
    );
  }
}
