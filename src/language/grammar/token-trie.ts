import { LRUCache } from 'lru-cache';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import type { AutomatonState } from './automaton.ts';
import { TokenSet } from './token-set.ts';

/** Whether to stop for now and continue later. */
export type ShouldPause = () => boolean;

interface TrieNode {
  token: number | null;
  children: Map<number, TrieNode>;
}

/** The text tokens of a vocabulary by their bytes. */
export class TokenTrie {
  readonly #root: TrieNode = { token: null, children: new Map() };
  readonly #tokenizer: Tokenizer;
  readonly #byteTokens: number[] = [];
  /** All text tokens. */
  readonly textTokens: TokenSet;

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
    const textTokens: number[] = [];
    for (let token = 0; token < tokenizer.vocabularySize; token++) {
      const bytes = tokenizer.bytes(token);
      if (bytes.length === 0) continue;
      textTokens.push(token);
      if (bytes.length === 1) this.#byteTokens[bytes[0]!] = token;
      this.#insert(bytes, token);
    }
    this.textTokens = TokenSet.of(Int32Array.from(textTokens));
  }

  /**
   * The tokens that a state admits. Leaves out a token that begins a longer one whose remaining bytes are
   * forced: both give the same text, and the longer one is how it is spelled.
   */
  legalTokens(state: AutomatonState): LegalTokenSearch {
    return new LegalTokenSearch(this.#root, state);
  }

  /** Whether any token is legal. One byte is enough, since every byte is a token. */
  hasLegalToken(state: AutomatonState): boolean {
    for (const byte of this.#root.children.keys()) if (state.step(byte)) return true;
    return false;
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
    const byteToken = (byte: number) => this.#byteTokens[byte]!;
    const text = Buffer.from(bytes.slice(start, end)).toString('utf8');
    return [
      ...bytes.slice(0, start).map(byteToken),
      ...this.#tokenizer.encodeExactly(text),
      ...bytes.slice(end).map(byteToken),
    ];
  }

  #insert(bytes: Uint8Array, token: number): void {
    let node = this.#root;
    for (const byte of bytes) {
      let child = node.children.get(byte);
      if (!child) {
        child = { token: null, children: new Map() };
        node.children.set(byte, child);
      }
      node = child;
    }
    node.token = token;
  }
}

/** A search through all tokens that can pause, so that a heavy grammar does not delay other requests. */
export class LegalTokenSearch {
  /** Steps still to take: to a node, by its byte, from the state before it. */
  readonly #pending: { node: TrieNode; byte: number; from: AutomatonState }[] = [];
  readonly #tokens: number[] = [];

  constructor(root: TrieNode, state: AutomatonState) {
    this.#open(root, state);
  }

  /** Continues until `shouldPause()`. Returns all legal tokens once the search is complete; null before. */
  advance(shouldPause: ShouldPause): TokenSet | null {
    while (this.#pending.length > 0) {
      if (shouldPause()) return null;
      const step = this.#pending.pop()!;
      const reached = step.from.step(step.byte);
      if (reached) {
        const { node } = step;
        if (node.token !== null && !hasForcedLongerToken(node, reached)) this.#tokens.push(node.token);
        this.#open(node, reached);
      }
    }
    return TokenSet.of(Int32Array.from(this.#tokens));
  }

  #open({ children }: TrieNode, from: AutomatonState): void {
    for (const [byte, node] of children) this.#pending.push({ node, byte, from });
  }
}

function hasForcedLongerToken(node: TrieNode, state: AutomatonState): boolean {
  let longer: TrieNode | undefined = node;
  let reached: AutomatonState | null = state;
  for (let byte = state.onlyByte; byte !== null; byte = reached?.onlyByte ?? null) {
    longer = longer?.children.get(byte);
    reached = reached?.step(byte) ?? null;
    if (!longer) return false;
    if (longer.token !== null && reached) return true;
  }
  return false;
}

const isContinuation = (byte: number) => byte >= 0x80 && byte < 0xc0;

function characterLength(leadByte: number): number {
  if (leadByte < 0x80) return 1;
  if (leadByte < 0xe0) return 2;
  return leadByte < 0xf0 ? 3 : 4;
}

/** Most bytes of all cached sets together. */
const maxBytes = 2 ** 24;

/** Sets of legal tokens, which recur within a grammar and between grammars. */
export class LegalSets {
  readonly #sets = new LRUCache<string, TokenSet>({
    maxSize: maxBytes,
    sizeCalculation: ({ bytes }, key) => bytes + key.length + 1,
  });

  /** The cached set that equals this one. If there is none, caches and returns this one. */
  find(tokens: TokenSet): TokenSet {
    const { key } = tokens;
    const known = this.#sets.get(key);
    if (known) return known;
    this.#sets.set(key, tokens);
    return tokens;
  }
}
