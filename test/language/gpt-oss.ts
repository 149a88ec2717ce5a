import { readFileSync } from 'node:fs';
import { readLanguage } from '../../src/language/chat/read-language.ts';
import { ConversationRenderer } from '../../src/language/chat/render.ts';
import type { ModelFiles } from '../../src/language/tokenizer/model-files.ts';
import { escapeForPattern } from '../../src/util/pattern.ts';

const fixtures = new URL('fixtures/', import.meta.url);
const textOf = (path: string) => readFileSync(new URL(path, fixtures), 'utf8');

const added =
  '<|startoftext|> <|endoftext|> <|return|> <|constrain|> <|channel|> <|start|> <|end|> <|message|> <|call|>'.split(
    ' ',
  );

/** The files of gpt-oss with its published template, on a small tokenizer with its special tokens. */
export const gptOssFiles: Readonly<Record<string, string>> = {
  'tokenizer.json': JSON.stringify({
    ...JSON.parse(textOf('llama3/tokenizer.json')),
    added_tokens: added.map((content, index) => ({
      ...{ id: 700 + index, content, special: true },
      ...{ single_word: false, lstrip: false, rstrip: false, normalized: false },
    })),
    post_processor: null,
  }),
  'tokenizer_config.json': JSON.stringify({
    ...{ bos_token: '<|startoftext|>', eos_token: '<|return|>', pad_token: '<|endoftext|>' },
  }),
  'generation_config.json': JSON.stringify({ eos_token_id: [702, 701, 708] }),
  'config.json': JSON.stringify({ vocab_size: 709, max_position_embeddings: 4096 }),
  'chat_template.jinja': textOf('templates/gpt-oss.jinja'),
};

const model: ModelFiles = {
  path: 'gpt-oss',
  pathOf: (name) => name,
  bytes: (name) => (name in gptOssFiles ? Buffer.from(gptOssFiles[name] ?? '') : null),
};

const language = readLanguage(model);
export const { tokenizer, format, shared } = language;
export const renderer = new ConversationRenderer(tokenizer, format);

const specialTokens = new RegExp(`(${added.map(escapeForPattern).join('|')})`);

/** The tokens of a text that spells special tokens. */
export const tokensOf = (text: string): number[] =>
  text.split(specialTokens).flatMap((part) => tokenizer.special.get(part) ?? tokenizer.encode(part));

export const shown = (tokens: readonly number[]): string =>
  tokens.map((token) => tokenizer.text(token)).join('');
