import { callTags } from '../call-forms.ts';
import { type AddedToken, BpeTokenizer, type TokenizerFile } from './bpe.ts';
import { byteFallback, isOfCharacters } from './byte-fallback.ts';
import { BYTE_SYMBOLS, byteLevel } from './byte-level.ts';
import { isTokenId, JsonFields } from './json-fields.ts';
import { filesOf, type ModelFiles } from './model-files.ts';
import { splitterOf } from './pre-tokenizer.ts';
import type { Tokenizer } from './tokenizer.ts';

/** Longest token, in bytes, and most added tokens: many times what published files have. */
const [maxTokenBytes, maxAddedTokens] = [4096, 1 << 16];

/**
 * Reads `tokenizer.json` of a checkpoint's folder: byte-level BPE as of GPT-2, SmolLM2, Llama 3 and Qwen, with its own
 * words, normalizer and added tokens; or BPE of characters with byte fallback, as of Gemma.
 *
 * @throws LanguageError (`checkpoint_unsupported`, `bad_checkpoint`) that names the file, the field and its value if the
 * file is of another kind, broken or missing.
 */
export function readTokenizer(from: string | ModelFiles): Tokenizer {
  const files = filesOf(from);
  return tokenizerOf(JsonFields.read(files, 'tokenizer.json'), rowsOf(files));
}

/** The ids for which a checkpoint has embeddings, by `config.json`; undefined if that says nothing. */
export function rowsOf(files: ModelFiles): number | undefined {
  const size = JsonFields.find(files, 'config.json')?.get('vocab_size');
  return typeof size === 'number' ? size : undefined;
}

/** `readTokenizer` for a file that was read before. @param rows See `rowsOf`. */
export function tokenizerOf(file: JsonFields, rows = Number.POSITIVE_INFINITY): Tokenizer {
  const added = addedTokensOf(file);
  if (isOfCharacters(file)) return characterTokenizer(file, added, rows);
  const model = modelOf(file, added);
  return new BpeTokenizer(
    { added_tokens: added, model },
    { split: splitterOf(file), normalize: normalizerOf(file) },
    byteLevel(model.vocab),
  );
}

/** Gemma's token of an image has no embedding in models without images: such special tokens are left out. */
function characterTokenizer(file: JsonFields, added: readonly AddedToken[], rows: number): Tokenizer {
  const known = added.filter(({ id, special }) => !special || id < rows);
  const model = modelOf(file, known);
  const special = known.filter((token) => token.special);
  const defined = known.filter((token) => !token.special);
  const vocab = { ...model.vocab };
  for (const { content, id } of defined) vocab[content] = id;
  const { rules, writing } = byteFallback(file, vocab, defined);
  return new BpeTokenizer({ added_tokens: special, model: { ...model, vocab } }, rules, writing);
}

function modelOf(file: JsonFields, added: readonly AddedToken[]): TokenizerFile['model'] {
  const model = file.object('model');
  file.expect('model.type', 'BPE', 'martingale reads tokenizers of the type BPE.');
  for (const field of [
    ...(isOfCharacters(file) ? [] : ['byte_fallback']),
    'dropout',
    'continuing_subword_prefix',
    'end_of_word_suffix',
    'unk_token',
  ]) {
    const value = model[field];
    // GPT-2's file names an unknown token, which byte-level BPE never needs.
    if (field === 'unk_token' && typeof value === 'string' && added.some(({ content }) => content === value))
      continue;
    if (value !== undefined && value !== null && value !== false && value !== '')
      throw file.unsupported(
        `model.${field}`,
        field === 'byte_fallback'
          ? 'martingale reads tokenizers of SentencePiece that put no space before a text, as Gemma\'s, by the normalizer "Replace".'
          : 'martingale reads tokenizers without this setting.',
      );
  }
  const vocab = file.object('model.vocab');
  checkVocabulary(file, vocab, added);
  checkMerges(file, vocab);
  return {
    vocab: vocab as Record<string, number>,
    merges: file.list('model.merges') as TokenizerFile['model']['merges'],
    ignore_merges: model.ignore_merges === true,
  };
}

/** Every id once, without gaps, and no token that is not bytes. */
function checkVocabulary(
  file: JsonFields,
  vocab: Record<string, unknown>,
  added: readonly AddedToken[],
): void {
  const symbols = isOfCharacters(file) ? null : new Set(BYTE_SYMBOLS);
  const contents = new Set(added.map(({ content }) => content));
  const ids = new Set<number>(added.map(({ id }) => id));
  for (const [token, id] of Object.entries(vocab)) {
    if (!isTokenId(id)) throw file.wrong(`model.vocab.${token}`, 'a token id', id);
    if (token.length > maxTokenBytes)
      throw file.unsupported(
        `model.vocab.${token.slice(0, 40)}...`,
        `martingale reads tokens of at most ${maxTokenBytes} bytes.`,
        id,
      );
    if (contents.has(token)) continue;
    if (ids.has(id)) throw file.wrong(`model.vocab.${token}`, 'an id that no other token has', id);
    ids.add(id);
    if ((symbols && ![...token].every((symbol) => symbols.has(symbol))) || token === '')
      throw file.wrong(
        `model.vocab.${token}`,
        'the id of a token written in the bytes of byte-level BPE',
        id,
      );
  }
  for (let id = 0; id < ids.size; id++)
    if (!ids.has(id)) throw file.wrong('model.vocab', `without gaps, but no token has the id ${id}`, vocab);
}

/** Two tokens each, whose texts together are a token. */
function checkMerges(file: JsonFields, vocab: Record<string, unknown>): void {
  for (const [index, merge] of file.list('model.merges').entries()) {
    const parts: unknown[] = typeof merge === 'string' ? merge.split(' ') : Array.isArray(merge) ? merge : [];
    const isMerge =
      parts.length === 2 &&
      [...parts, parts.join('')].every((token) => typeof token === 'string' && Object.hasOwn(vocab, token));
    if (!isMerge)
      throw file.wrong(`model.merges.${index}`, 'two tokens whose texts together are a token', merge);
  }
}

function addedTokensOf(file: JsonFields): AddedToken[] {
  const tokens = file.list('added_tokens');
  if (tokens.length > maxAddedTokens)
    throw file.unsupported(
      'added_tokens.length',
      `martingale reads at most ${maxAddedTokens}.`,
      tokens.length,
    );
  return tokens.map((_, index) => {
    const at = `added_tokens.${index}`;
    const { id, content, special, ...more } = file.object(at);
    if (!isTokenId(id)) throw file.wrong(`${at}.id`, 'a token id');
    if (typeof content !== 'string' || content === '') throw file.wrong(`${at}.content`, 'a text');
    if (content.length > maxTokenBytes)
      throw file.unsupported(
        `${at}.content`,
        `martingale reads tokens of at most ${maxTokenBytes} characters.`,
      );
    for (const name of ['lstrip', 'rstrip', 'single_word'])
      if (more[name] === true)
        throw file.unsupported(
          `${at}.${name}`,
          'martingale reads tokens that do not absorb the spaces around them.',
        );
    return { id, content, special: special === true && !callTags.has(content) };
  });
}

function normalizerOf(file: JsonFields): ((text: string) => string) | null {
  if (file.get('normalizer') === undefined) return null;
  // DeepSeek's is a sequence of none.
  const names =
    file.get('normalizer.type') === 'Sequence'
      ? file.list('normalizer.normalizers').map((_, index) => `normalizer.normalizers.${index}`)
      : ['normalizer'];
  for (const name of names)
    file.expect(`${name}.type`, 'NFC', 'martingale normalizes texts by NFC, or not at all.');
  return names.length === 0 ? null : (text) => text.normalize('NFC');
}
