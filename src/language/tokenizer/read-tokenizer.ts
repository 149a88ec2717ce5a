import { createContext, Script } from 'node:vm';
import { Tokenizer as HuggingFaceTokenizer } from '@huggingface/tokenizers';
import { messageOf } from '../../util/error.ts';
import { isObject } from '../../util/json.ts';
import { type AddedToken, BpeTokenizer, type TokenizerFile } from './bpe.ts';
import { byteFallback, isOfCharacters } from './byte-fallback.ts';
import { BYTE_SYMBOLS, byteLevel } from './byte-level.ts';
import { CheckpointFile } from './checkpoint-file.ts';
import { filesOf, type ModelFiles } from './model-files.ts';
import type { Tokenizer } from './tokenizer.ts';

/** Longest token, in bytes, and most added tokens: many times what published files have. */
const [maxTokenBytes, maxAddedTokens] = [4096, 1 << 16];

/** Longest pattern of a pre-tokenizer, in characters. Published ones have up to 300. */
const maxPattern = 4096;

/** The words of GPT-2, which the pre-tokenizer `ByteLevel` finds unless it has `use_regex: false`. */
const gpt2Words = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/**
 * Reads `tokenizer.json` of a checkpoint's folder: byte-level BPE as of GPT-2, SmolLM2, Llama 3 and Qwen, with its own
 * words, normalizer and added tokens; or BPE of characters with byte fallback, as of Gemma.
 *
 * @throws LanguageError (`checkpoint_unsupported`) that names the file, the field and its value if the file is missing
 * or of another kind.
 */
export function readTokenizer(from: string | ModelFiles): Tokenizer {
  const files = filesOf(from);
  return tokenizerOf(CheckpointFile.read(files, 'tokenizer.json'), rowsOf(files));
}

/** The ids for which a checkpoint has embeddings, by `config.json`; undefined if that says nothing. */
export function rowsOf(files: ModelFiles): number | undefined {
  const size = CheckpointFile.find(files, 'config.json')?.value('vocab_size');
  return typeof size === 'number' ? size : undefined;
}

/** `readTokenizer` for a file that was read before. @param rows See `rowsOf`. */
export function tokenizerOf(file: CheckpointFile, rows = Number.POSITIVE_INFINITY): Tokenizer {
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
function characterTokenizer(file: CheckpointFile, added: readonly AddedToken[], rows: number): Tokenizer {
  const known = added.filter(({ id, special }) => !special || id < rows);
  const model = modelOf(file, known);
  const special = known.filter((token) => token.special);
  const defined = known.filter((token) => !token.special);
  const vocab = { ...model.vocab };
  for (const { content, id } of defined) vocab[content] = id;
  const { rules, writing } = byteFallback(file, vocab, defined);
  return new BpeTokenizer({ added_tokens: special, model: { ...model, vocab } }, rules, writing);
}

function modelOf(file: CheckpointFile, added: readonly AddedToken[]): TokenizerFile['model'] {
  const model = file.object('model');
  file.expect('model.type', 'BPE', 'only BPE is supported');
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
      file.refuse(`model.${field}`, value, 'it must be absent');
  }
  const { vocab, ignore_merges: ignoreMerges } = model;
  if (!isObject(vocab)) return file.refuse('model.vocab', vocab, 'it must be an object of token ids');
  checkVocabulary(file, vocab, added);
  checkMerges(file, vocab);
  return {
    vocab: vocab as Record<string, number>,
    merges: file.list('model.merges') as TokenizerFile['model']['merges'],
    ignore_merges: ignoreMerges === true,
  };
}

/** Every id once, without gaps, and no token that is not bytes. */
function checkVocabulary(
  file: CheckpointFile,
  vocab: Record<string, unknown>,
  added: readonly AddedToken[],
): void {
  const symbols = isOfCharacters(file) ? null : new Set(BYTE_SYMBOLS);
  const contents = new Set(added.map(({ content }) => content));
  const ids = new Set<number>(added.map(({ id }) => id));
  for (const [token, id] of Object.entries(vocab)) {
    if (typeof id !== 'number' || !Number.isSafeInteger(id) || id < 0)
      file.refuse(`model.vocab.${token}`, id, 'it must be a token id');
    else if (token.length > maxTokenBytes)
      file.refuse(
        `model.vocab.${token.slice(0, 40)}...`,
        id,
        `the token has more than ${maxTokenBytes} bytes`,
      );
    else if (!contents.has(token)) {
      if (ids.has(id)) file.refuse(`model.vocab.${token}`, id, 'another token has the same id');
      ids.add(id);
      if ((symbols && ![...token].every((symbol) => symbols.has(symbol))) || token === '')
        file.refuse(`model.vocab.${token}`, id, 'the token is not written in the bytes of byte-level BPE');
    }
  }
  for (let id = 0; id < ids.size; id++)
    if (!ids.has(id)) file.refuse('model.vocab', `no token with id ${id}`, 'ids must have no gaps');
}

/** Two tokens each, whose texts together are a token. */
function checkMerges(file: CheckpointFile, vocab: Record<string, unknown>): void {
  for (const [index, merge] of file.list('model.merges').entries()) {
    const parts: unknown[] = typeof merge === 'string' ? merge.split(' ') : Array.isArray(merge) ? merge : [];
    const isMerge =
      parts.length === 2 &&
      [...parts, parts.join('')].every((token) => typeof token === 'string' && Object.hasOwn(vocab, token));
    if (!isMerge)
      file.refuse(`model.merges.${index}`, merge, 'it must be two tokens whose texts together are a token');
  }
}

function addedTokensOf(file: CheckpointFile): AddedToken[] {
  const tokens = file.list('added_tokens');
  if (tokens.length > maxAddedTokens)
    file.refuse('added_tokens', tokens.length, `there may be ${maxAddedTokens} at most`);
  return tokens.map((token, index) => {
    const at = `added_tokens.${index}`;
    if (!isObject(token)) return file.refuse(at, token, 'it must be an object');
    const { id, content, special, lstrip, rstrip, single_word: singleWord } = token;
    if (typeof id !== 'number' || !Number.isSafeInteger(id) || id < 0)
      return file.refuse(`${at}.id`, id, 'it must be a token id');
    if (typeof content !== 'string' || content === '')
      return file.refuse(`${at}.content`, content, 'it must be a text');
    if (content.length > maxTokenBytes)
      return file.refuse(`${at}.content`, content, `it may have ${maxTokenBytes} characters at most`);
    for (const [name, value] of Object.entries({ lstrip, rstrip, single_word: singleWord }))
      if (value === true)
        file.refuse(`${at}.${name}`, value, 'tokens that take text around them are not supported');
    return { id, content, special: special === true };
  });
}

function normalizerOf(file: CheckpointFile): ((text: string) => string) | null {
  const normalizer = file.value('normalizer');
  if (normalizer === undefined || normalizer === null) return null;
  file.expect('normalizer.type', 'NFC', 'only NFC is supported');
  return (text) => text.normalize('NFC');
}

/**
 * The splits into words, one after the other. All become patterns of the library's `Split`, which has Rust's classes of
 * characters; its `Digits` and `ByteLevel` have JavaScript's, which differ.
 */
function splitterOf(file: CheckpointFile): (text: string) => string[] {
  const type = file.value('pre_tokenizer.type');
  const names =
    type === 'Sequence'
      ? file.list('pre_tokenizer.pretokenizers').map((_, index) => `pre_tokenizer.pretokenizers.${index}`)
      : ['pre_tokenizer'];
  const patterns = names.flatMap((name) => patternOf(file, name) ?? []);
  if (!names.some((name) => file.value(`${name}.type`) === 'ByteLevel'))
    file.refuse('pre_tokenizer.type', type, 'only byte-level tokenizers are supported');
  if (patterns.length === 0) return (text) => [text];
  checkPatterns(file, names);
  return splitterBy(patterns);
}

/** @throws the library's error for a pattern that is none */
function splitterBy(patterns: readonly string[]): (text: string) => string[] {
  const pretokenizers = patterns.map((Regex) => ({
    type: 'Split',
    pattern: { Regex },
    behavior: 'Isolated',
    invert: false,
  }));
  const library = new HuggingFaceTokenizer(
    {
      model: { type: 'BPE', vocab: {}, merges: [] },
      added_tokens: [],
      normalizer: null,
      pre_tokenizer: { type: 'Sequence', pretokenizers },
      post_processor: null,
      decoder: null,
    },
    {},
  );
  return (text) => (text === '' ? [] : library.pre_tokenizer(text));
}

/** How long a pattern may take for a probe of a few thousand characters, in milliseconds. Published ones take about one. */
const probeMs = 1000;

/**
 * Refuses a pattern that is none, and one that takes more time the longer a text is than in proportion to it, such as
 * `(a+)+$`: texts of callers run through it. The probes are long runs of what patterns tell apart, and of each character
 * that the pattern names.
 */
function checkPatterns(file: CheckpointFile, names: readonly string[]): void {
  for (const name of names) {
    const pattern = patternOf(file, name);
    if (pattern === null || pattern === gpt2Words) continue;
    const field = `${name}.pattern`;
    if (pattern.length > maxPattern)
      file.refuse(field, pattern, `it may have ${maxPattern} characters at most`);
    const probes = [...new Set([...'aA1 \n\t.é中', ...pattern])].flatMap((character) => [
      `${character.repeat(3000)}\u0000`,
      `${`${character}a`.repeat(1500)}\u0000`,
    ]);
    const context = createContext({
      run: () => {
        const split = splitterBy([pattern]);
        for (const probe of probes) split(probe);
      },
    });
    try {
      new Script('run()').runInContext(context, { timeout: probeMs });
    } catch (error) {
      // Not an Error of this realm.
      const isSlow =
        typeof error === 'object' &&
        error !== null &&
        'code' in error &&
        error.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';
      file.refuse(
        field,
        pattern,
        isSlow ? 'it takes too long for texts of some thousand characters' : messageOf(error),
      );
    }
  }
}

/** The pattern of one step of the pre-tokenizer; null if it does not split. */
function patternOf(file: CheckpointFile, name: string): string | null {
  const type = file.value(`${name}.type`);
  if (type === 'ByteLevel') {
    if (file.value(`${name}.add_prefix_space`) !== false)
      file.refuse(`${name}.add_prefix_space`, file.value(`${name}.add_prefix_space`), 'it must be false');
    return file.value(`${name}.use_regex`) === false ? null : gpt2Words;
  }
  if (type === 'Digits') return file.value(`${name}.individual_digits`) === true ? '\\p{N}' : '\\p{N}+';
  if (type !== 'Split') return file.refuse(`${name}.type`, type, 'ByteLevel, Digits and Split are supported');
  file.expect(`${name}.behavior`, 'Isolated', 'only Isolated is supported');
  if (file.value(`${name}.invert`) === true) file.refuse(`${name}.invert`, true, 'it must be false');
  const pattern = file.value(`${name}.pattern.Regex`);
  return typeof pattern === 'string'
    ? pattern
    : file.refuse(`${name}.pattern`, file.value(`${name}.pattern`), 'it must be a Regex');
}
