import { append } from '../../util/extremes.ts';
import { escapeForPattern } from '../../util/pattern.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { TokenSet } from './token-set.ts';

/** Kinds of nodes whose byte is no ASCII character. */
export const nodeKinds = {
  /** A byte of a character from U+0080 to U+FFFF. */
  wide: 0x80,
  /** A byte of a character above U+FFFF, which bounded strings in JSON escape. */
  astral: 0x81,
  /** A byte that cannot follow in UTF-8, or the first byte of a character where such a byte follows later. */
  illFormed: 0x82,
} as const;

/**
 * The text tokens of a vocabulary by their bytes. Nodes are numbered depth first: the subtree of node `n` is `n + 1` to
 * `ends[n] - 1`. Node 0 is the root. Of tokens with equal bytes, only one is a text token: the one that the tokenizer
 * encodes, else the one with the lowest id.
 */
export class TokenTrie {
  readonly vocabularySize: number;
  readonly textTokens: TokenSet;
  /** The byte that leads to each node. */
  readonly bytes: Uint8Array;
  /** The first node after those below each node. */
  readonly ends: Int32Array;
  /** The token that ends at each node; -1 if there is none. */
  readonly tokens: Int32Array;
  /** The byte of each node if it is an ASCII character, else one of `nodeKinds`. */
  readonly kinds: Uint8Array;
  /** Number of characters that begin on the way to each node. */
  readonly characters: Uint16Array;
  /** Number of bytes that the character at each node still needs. */
  readonly missing: Uint8Array;
  readonly #tokenizer: Tokenizer;
  /** Finds added tokens that are text; null if there are none. */
  readonly #tags: RegExp | null;
  readonly #tagBytes: readonly Buffer[];

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
    const { added, special } = tokenizer;
    const tags = [...added.keys()].filter((text) => !special.has(text)).sort((a, b) => b.length - a.length);
    this.#tags = tags.length > 0 ? new RegExp(tags.map(escapeForPattern).join('|'), 'g') : null;
    this.#tagBytes = tags.map((text) => Buffer.from(text));
    this.vocabularySize = tokenizer.vocabularySize;
    const links = new LinkedTrie(tokenizer);
    const { count } = links;
    this.bytes = new Uint8Array(count);
    this.ends = new Int32Array(count);
    this.tokens = new Int32Array(count).fill(-1);
    this.kinds = new Uint8Array(count);
    this.characters = new Uint16Array(count);
    this.missing = new Uint8Array(count);
    /** The nodes on the way to the node before, here and in `links`. */
    const path = [0];
    const from = [0];
    for (let node = 1; node < count; node++) {
      let linked = links.children[from.at(-1)!]!;
      while (linked === 0) {
        this.ends[path.pop()!] = node;
        linked = links.siblings[from.pop()!]!;
      }
      this.bytes[node] = links.bytes[linked]!;
      this.tokens[node] = links.tokens[linked]!;
      this.#classify(node, path);
      path.push(node);
      from.push(linked);
    }
    for (const node of path) this.ends[node] = count;
    this.textTokens = TokenSet.of(this.tokens.filter((token) => token >= 0));
  }

  /** Finds what a new node means in UTF-8. `path`: the nodes on the way to it. */
  #classify(node: number, path: readonly number[]): void {
    const byte = this.bytes[node]!;
    const parent = path.at(-1)!;
    const missing = this.missing[parent]!;
    const begins = missing === 0;
    this.characters[node] = this.characters[parent]! + (begins ? 1 : 0);
    if (begins) {
      this.kinds[node] = kindOf(byte);
      this.missing[node] = isLead(byte) ? (byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3) : 0;
    } else if (mayContinue(this.bytes[parent]!, byte)) {
      this.kinds[node] = this.kinds[parent]!;
      this.missing[node] = missing - 1;
    } else {
      this.kinds[node] = nodeKinds.illFormed;
      let lead = path.length - 1;
      while (!isLead(this.bytes[path[lead]!]!)) lead--;
      this.kinds[path[lead]!] = nodeKinds.illFormed;
    }
  }

  /** The node that a byte leads to; -1 if there is none. */
  child(node: number, byte: number): number {
    const end = this.ends[node]!;
    for (let child = node + 1; child < end; child = this.ends[child]!)
      if (this.bytes[child] === byte) return child;
    return -1;
  }

  /** The longest token of a set that the bytes from `start` begin with; -1 if there is none. */
  longestToken(tokens: TokenSet, bytes: Uint8Array, start: number): number {
    let longest = -1;
    let node = 0;
    for (let at = start; at < bytes.length; at++) {
      node = this.child(node, bytes[at]!);
      if (node < 0) break;
      const token = this.tokens[node]!;
      if (token >= 0 && tokens.has(token)) longest = token;
    }
    return longest;
  }

  /** The tokens of bytes that may begin and end within a character. */
  encodeBytes(bytes: readonly number[]): number[] {
    let start = 0;
    while (start < bytes.length && isContinuation(bytes[start]!)) start++;
    let end = bytes.length;
    for (let back = 1; back <= 3 && back <= end - start; back++) {
      const byte = bytes[end - back]!;
      if (isContinuation(byte)) continue;
      if (characterLength(byte) > back) end -= back;
      break;
    }
    const byteToken = (byte: number) => this.tokens[this.child(0, byte)]!;
    const text = Buffer.from(bytes.slice(start, end)).toString('utf8');
    return [
      ...bytes.slice(0, start).map(byteToken),
      ...this.#encodeText(text),
      ...bytes.slice(end).map(byteToken),
    ];
  }

  /** What tags lack that bytes end in the middle of, longest beginning first. */
  begunTags(bytes: readonly number[]): { length: number; rest: Buffer }[] {
    return this.#tagBytes
      .flatMap((tag) =>
        Array.from({ length: Math.min(tag.length - 1, bytes.length) }, (_, index) => index + 1)
          .filter((length) => tag.subarray(0, length).equals(Buffer.from(bytes.slice(-length))))
          .map((length) => ({ length, rest: tag.subarray(length) })),
      )
      .sort((one, other) => other.length - one.length);
  }

  /** Tags such as `<tool_call>` are their own tokens here, because models know them so. */
  #encodeText(text: string): number[] {
    const tokens: number[] = [];
    let end = 0;
    for (const match of this.#tags ? text.matchAll(this.#tags) : []) {
      append(tokens, this.#tokenizer.encodeExactly(text.slice(end, match.index)));
      tokens.push(this.#tokenizer.added.get(match[0])!);
      end = match.index + match[0].length;
    }
    return [...tokens, ...this.#tokenizer.encodeExactly(text.slice(end))];
  }
}

/** A trie whose nodes are linked, in the order in which they were added. 0 is the root, and means none in a link. */
class LinkedTrie {
  readonly bytes: Uint8Array;
  readonly tokens: Int32Array;
  /** The first child of each node. */
  readonly children: Int32Array;
  /** The next child of each node's parent. */
  readonly siblings: Int32Array;
  count = 1;

  constructor(tokenizer: Tokenizer) {
    let most = 1;
    for (let token = 0; token < tokenizer.vocabularySize; token++) most += tokenizer.bytes(token).length;
    this.bytes = new Uint8Array(most);
    this.tokens = new Int32Array(most).fill(-1);
    this.children = new Int32Array(most);
    this.siblings = new Int32Array(most);
    for (let token = 0; token < tokenizer.vocabularySize; token++) {
      const bytes = tokenizer.bytes(token);
      if (bytes.length === 0) continue;
      let node = 0;
      for (const byte of bytes) node = this.#child(node, byte);
      if (this.tokens[node] === -1 || isUsual(tokenizer, token, bytes)) this.tokens[node] = token;
    }
  }

  #child(node: number, byte: number): number {
    let child = this.children[node]!;
    if (child === 0) this.children[node] = this.count;
    while (child !== 0) {
      if (this.bytes[child] === byte) return child;
      const next = this.siblings[child]!;
      if (next === 0) this.siblings[child] = this.count;
      child = next;
    }
    this.bytes[this.count] = byte;
    return this.count++;
  }
}

/** Whether the encoding of these bytes is this token. */
function isUsual(tokenizer: Tokenizer, token: number, bytes: Uint8Array): boolean {
  const [first, ...others] = tokenizer.encodeExactly(Buffer.from(bytes).toString('utf8'));
  return first === token && others.length === 0;
}

const isContinuation = (byte: number) => byte >= 0x80 && byte < 0xc0;

/** Whether a byte begins a character above U+007F. */
const isLead = (byte: number) => byte >= 0xc2 && byte < 0xf5;

/** The kind of a character by its first byte. */
export function kindOf(byte: number): number {
  if (byte < 0x80) return byte;
  if (!isLead(byte)) return nodeKinds.illFormed;
  return byte < 0xf0 ? nodeKinds.wide : nodeKinds.astral;
}

/** Whether a byte may follow the one before it within a character. */
function mayContinue(before: number, byte: number): boolean {
  if (before === 0xe0) return byte >= 0xa0 && byte < 0xc0;
  if (before === 0xed) return byte >= 0x80 && byte < 0xa0;
  if (before === 0xf0) return byte >= 0x90 && byte < 0xc0;
  if (before === 0xf4) return byte >= 0x80 && byte < 0x90;
  return isContinuation(byte);
}

function characterLength(leadByte: number): number {
  if (leadByte < 0x80) return 1;
  if (leadByte < 0xe0) return 2;
  return leadByte < 0xf0 ? 3 : 4;
}
