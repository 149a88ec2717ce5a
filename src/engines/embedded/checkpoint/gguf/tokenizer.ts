import { type ChatFormat, JsonFields, type ModelFiles } from '../../../../language/index.ts';
import { isObject } from '../../../../util/json.ts';
import { badCheckpoint } from '../bad-checkpoint.ts';
import { characterScores, characterTokenizer, kinds } from './character-tokenizer.ts';
import type { GgufField } from './encode-header.ts';
import type { GgufFields } from './fields.ts';

const qwenWords =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const llamaWords = qwenWords.replace('|\\p{N}|', '|\\p{N}{1,3}|');
const [upper, lower] = ['[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]', '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]'];
/** Of Mistral's Tekken: words end before a capital letter. */
const tekkenWords = `[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+|[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;

/** How a text becomes words, in the form of `tokenizer.json`. */
interface Words {
  normalizer: object | null;
  preTokenizer: { pretokenizers: readonly object[] };
  /** Whether a word that is a token stays whole, whatever the merges say. */
  ignoreMerges: boolean;
  /** Whether texts begin with the begin token, unless the file says something else. */
  begins: boolean;
}

const bytes = (usesWords: boolean) => ({
  type: 'ByteLevel',
  add_prefix_space: false,
  trim_offsets: true,
  use_regex: usesWords,
});
const split = (Regex: string) => ({ type: 'Split', pattern: { Regex }, behavior: 'Isolated', invert: false });
const usual = { normalizer: null, ignoreMerges: false, begins: false };
const llama: Words = {
  ...usual,
  preTokenizer: { pretokenizers: [split(llamaWords), bytes(false)] },
  ignoreMerges: true,
  begins: true,
};
/** Words that are tokens are merged too. */
const mergedLlama: Words = { ...llama, ignoreMerges: false, begins: false };
/** Each digit is a word. */
const digits: Words = {
  ...usual,
  preTokenizer: { pretokenizers: [{ type: 'Digits', individual_digits: true }, bytes(true)] },
};
const qwen: Words = { ...usual, preTokenizer: { pretokenizers: [split(qwenWords), bytes(false)] } };

/**
 * The kinds of words, by the name that llama.cpp gives them in `tokenizer.ggml.pre`. Only of
 * families that martingale runs, and whose tokens were compared with the published tokenizers.
 */
const wordsByName: ReadonlyMap<string, Words> = new Map([
  ['llama-bpe', llama],
  ['llama3', llama],
  ['llama-v3', llama],
  ['qwen2', { ...qwen, normalizer: { type: 'NFC' } }],
  ['lfm2', llama],
  ['deepseek-r1-qwen', qwen],
  ['smollm', digits],
  // Granite 3's, which are StarCoder's.
  ['refact', digits],
  ['starcoder', digits],
  // Granite 4.0's, and SmolLM3's.
  ['dbrx', mergedLlama],
  ['smaug-bpe', mergedLlama],
  ['tekken', { ...llama, preTokenizer: { pretokenizers: [split(tekkenWords), bytes(false)] } }],
  ['gpt-2', { ...usual, preTokenizer: { pretokenizers: [bytes(true)] } }],
]);

/**
 * What a `tokenizer.json` says of words, as one string: the normalizer, whether words that are tokens stay whole, and each step
 * of the pre-tokenizer.
 */
function signatureOf(normalizer: unknown, ignoreMerges: boolean, steps: readonly unknown[]): string {
  const keyOf = (step: unknown) => {
    if (!isObject(step)) return null;
    const { type, pattern, individual_digits: digits, use_regex: usesWords = true } = step;
    if (type === 'Split' && isObject(pattern)) return pattern.Regex;
    return type === 'Digits' ? `digits ${digits === true}` : `${type} ${usesWords}`;
  };
  return JSON.stringify([isObject(normalizer) ? normalizer.type : null, ignoreMerges, ...steps.map(keyOf)]);
}

/** @throws LanguageError (`checkpoint_unsupported`) for words that have no name */
function nameOfWords(file: JsonFields): string {
  const { pre_tokenizer: splits, normalizer } = file.fields;
  const steps = isObject(splits) && Array.isArray(splits.pretokenizers) ? splits.pretokenizers : [splits];
  const signature = signatureOf(normalizer, file.get('model.ignore_merges') === true, steps);
  const found = [...wordsByName].find(
    ([, words]) =>
      signatureOf(words.normalizer, words.ignoreMerges, words.preTokenizer.pretokenizers) === signature,
  );
  if (found) return found[0];
  throw file.unsupported(
    'pre_tokenizer',
    'llama.cpp has no name for these words. Export with --merged instead.',
  );
}

const prefix = 'tokenizer.ggml.';

/** What a GGUF file says of its tokenizer, as `tokenizer.json` says it. */
export function tokenizerJson(fields: GgufFields): object {
  const isOfCharacters =
    fields.text(`${prefix}model`) === 'llama' && fields.text('general.architecture') === 'gemma3';
  const words = isOfCharacters ? null : wordsOf(fields);
  const { tokens, types } = tokensOf(fields);
  const { texts, parts } = words
    ? { texts: tokens, parts: byteLevelParts(fields, words, tokens) }
    : characterTokenizer(fields, { tokens, types });
  if (new Set(texts).size < texts.length)
    throw badCheckpoint(`${fields.path}: ${prefix}tokens has the same token twice. Fetch the file again.`);
  const begins = fields.flag(`${prefix}add_bos_token`) ?? words?.begins ?? true;
  const begin = begins ? tokenAt(fields, tokens, 'bos') : undefined;
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: addedTokens(texts, types),
    post_processor: begin === undefined ? null : beginProcessor(begin, tokens.indexOf(begin)),
    ...parts,
  };
}

function wordsOf(fields: GgufFields): Words {
  if (fields.text(`${prefix}model`) !== 'gpt2')
    throw fields.unsupported(
      `${prefix}model`,
      'martingale reads byte-level BPE, "gpt2", and Gemma\'s "llama". Choose another model, or its folder in Hugging Face form.',
    );
  const words = wordsByName.get(fields.text(`${prefix}pre`) ?? '');
  if (words) return words;
  throw fields.unsupported(
    `${prefix}pre`,
    `martingale reads ${[...wordsByName.keys()].join(', ')}. Choose such a model, or its folder in Hugging Face form.`,
  );
}

const byteLevelParts = (fields: GgufFields, words: Words, tokens: readonly string[]) => ({
  normalizer: words.normalizer,
  pre_tokenizer: { type: 'Sequence', ...words.preTokenizer },
  decoder: bytes(true),
  model: {
    type: 'BPE',
    dropout: null,
    unk_token: null,
    continuing_subword_prefix: null,
    end_of_word_suffix: null,
    fuse_unk: false,
    byte_fallback: false,
    ignore_merges: words.ignoreMerges,
    // With the added tokens, because Hugging Face's library gives those that it does not find here other ids.
    vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
    merges: fields.texts(`${prefix}merges`),
  },
});

const addedTokens = (tokens: readonly string[], types: readonly number[]) =>
  tokens.flatMap((content, id) =>
    types[id] === kinds.normal || types[id] === kinds.byte
      ? []
      : [{ id, content, ...plain, normalized: false, special: types[id] !== kinds.userDefined }],
  );

const plain = { single_word: false, lstrip: false, rstrip: false };

const beginProcessor = (token: string, id: number) => ({
  type: 'TemplateProcessing',
  single: [{ SpecialToken: { id: token, type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
  pair: [
    { SpecialToken: { id: token, type_id: 0 } },
    { Sequence: { id: 'A', type_id: 0 } },
    { SpecialToken: { id: token, type_id: 1 } },
    { Sequence: { id: 'B', type_id: 1 } },
  ],
  special_tokens: { [token]: { id: token, ids: [id], tokens: [token] } },
});

/** The tokens with their kinds, without those at the end that only fill the matrices up. */
function tokensOf(fields: GgufFields): { tokens: readonly string[]; types: readonly number[] } {
  const tokens = fields.texts(`${prefix}tokens`);
  const types = fields.numbers(`${prefix}token_type`);
  if (types.length !== tokens.length)
    throw badCheckpoint(
      `${fields.path}: ${prefix}token_type has ${types.length} entries, but ${prefix}tokens has ${tokens.length}. Fetch the file again.`,
    );
  let count = tokens.length;
  while (count > 0 && types[count - 1] === kinds.unused) count--;
  return { tokens: tokens.slice(0, count), types: types.slice(0, count) };
}

/** The text of a token that a field names, such as `bos`. */
function tokenAt(fields: GgufFields, tokens: readonly string[], name: string): string | undefined {
  const field = `${prefix}${name}_token_id`;
  const id = fields.number(field);
  if (id === undefined) return undefined;
  const token = tokens[id];
  if (token === undefined) throw fields.wrong(field, `below ${tokens.length}, the number of tokens`);
  return token;
}

/** Special tokens by their names in `tokenizer_config.json`. */
const named = { bos_token: 'bos', eos_token: 'eos', pad_token: 'padding', unk_token: 'unknown' } as const;

function byteLevelFields(file: JsonFields, tokens: string[], types: number[]): Record<string, GgufField> {
  const merges = file.nested('model')?.get('merges');
  const texts = (Array.isArray(merges) ? merges : []).map((merge) =>
    Array.isArray(merge) ? merge.join(' ') : String(merge),
  );
  return {
    [`${prefix}model`]: { type: 'string', value: 'gpt2' },
    [`${prefix}pre`]: { type: 'string', value: nameOfWords(file) },
    [`${prefix}tokens`]: { type: 'strings', value: tokens },
    [`${prefix}token_type`]: { type: 'int32s', value: types },
    [`${prefix}merges`]: { type: 'strings', value: texts },
  };
}

function characterFields(file: JsonFields, tokens: string[], types: number[]): Record<string, GgufField> {
  const kindOf = (type: number, id: number) => {
    if (tokens[id] === file.nested('model')?.get('unk_token')) return kinds.unknown;
    return type === kinds.normal && /^<0x[0-9A-F]{2}>$/.test(tokens[id] ?? '') ? kinds.byte : type;
  };
  const own = types.map(kindOf);
  const { scores, texts } = characterScores(file, tokens, own);
  return {
    [`${prefix}model`]: { type: 'string', value: 'llama' },
    [`${prefix}pre`]: { type: 'string', value: 'default' },
    [`${prefix}tokens`]: { type: 'strings', value: texts },
    [`${prefix}scores`]: { type: 'float32s', value: scores },
    [`${prefix}token_type`]: { type: 'int32s', value: own },
    [`${prefix}add_eos_token`]: { type: 'bool', value: false },
    [`${prefix}add_space_prefix`]: { type: 'bool', value: false },
  };
}

/** What a GGUF file says of its special tokens and its template, as `tokenizer_config.json` says it. */
export function tokenizerConfig(fields: GgufFields): object {
  const { tokens } = tokensOf(fields);
  const special = Object.entries(named).map(([name, field]) => [
    name,
    tokenAt(fields, tokens, field) ?? null,
  ]);
  const template = fields.text('tokenizer.chat_template');
  const others = fields
    .namesOf('tokenizer.chat_template.')
    .map((name) => ({ name: name.slice('tokenizer.chat_template.'.length), template: fields.text(name) }));
  const templates = others.length > 0 ? [{ name: 'default', template }, ...others] : template;
  return {
    ...Object.fromEntries(special),
    ...(template === undefined ? {} : { chat_template: templates }),
    clean_up_tokenization_spaces: false,
    tokenizer_class: 'PreTrainedTokenizerFast',
  };
}

/** Texts of tokens that end a reply. A file names one or few of them; llama.cpp finds the others by their texts too. */
const endTexts = [
  ...['<|eot_id|>', '<|eom_id|>', '<|im_end|>', '<|end_of_text|>', '<|endoftext|>'],
  ...['<end_of_turn>', '<eos>'],
];

export function endTokens(fields: GgufFields): number[] {
  const { tokens } = tokensOf(fields);
  const named = ['eos', 'eot', 'eom'].flatMap((name) => tokenAt(fields, tokens, name) ?? []);
  return [...new Set([...named, ...endTexts])].map((token) => tokens.indexOf(token)).filter((id) => id >= 0);
}

/**
 * The tokenizer and the template of a checkpoint as fields of a GGUF file.
 * @param vocabularySize Rows of the embeddings. Tokens that only fill them up are called `[PAD<id>]`, as by llama.cpp.
 * @throws LanguageError (`checkpoint_unsupported`) for words that llama.cpp has no name for
 */
export function tokenizerFields(
  files: ModelFiles,
  { vocabularySize, format }: { vocabularySize: number; format: ChatFormat },
): Record<string, GgufField> {
  const file = JsonFields.read(files, 'tokenizer.json');
  const model = file.nested('model')?.fields ?? {};
  const tokens = Array.from({ length: vocabularySize }, (_, id) => `[PAD${id}]`);
  const types = tokens.map((): number => kinds.unused);
  for (const [token, id] of Object.entries(isObject(model.vocab) ? model.vocab : {}))
    [tokens[Number(id)], types[Number(id)]] = [token, kinds.normal];
  // Gemma's token of an image has no row.
  for (const token of Array.isArray(file.fields.added_tokens) ? file.fields.added_tokens : [])
    if (token.id < vocabularySize)
      [tokens[token.id], types[token.id]] = [
        token.content,
        token.special ? kinds.control : kinds.userDefined,
      ];
  const fields: Record<string, GgufField> = {
    ...(model.byte_fallback === true
      ? characterFields(file, tokens, types)
      : byteLevelFields(file, tokens, types)),
    [`${prefix}add_bos_token`]: { type: 'bool', value: format.beginToken !== null },
  };
  for (const [name, field] of Object.entries(named)) {
    const id = tokens.indexOf(format.variables[name] ?? '');
    // Programs stop a reply at this one, whatever the tokenizer calls the end.
    const own = field === 'eos' ? format.endToken : id;
    if (own >= 0) fields[`${prefix}${field}_token_id`] = { type: 'uint32', value: own };
  }
  fields['tokenizer.chat_template'] = { type: 'string', value: format.template };
  if (format.toolTemplate !== null) {
    fields['tokenizer.chat_templates'] = { type: 'strings', value: ['tool_use'] };
    fields['tokenizer.chat_template.tool_use'] = { type: 'string', value: format.toolTemplate };
  }
  return fields;
}
