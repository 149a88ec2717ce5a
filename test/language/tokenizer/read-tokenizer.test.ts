import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { builtInLanguage } from '../../../src/engines/embedded/built-in/built-in-language.ts';
import { readChatFormat } from '../../../src/language/chat/read-chat-format.ts';
import { TokenTrie } from '../../../src/language/grammar/token-trie.ts';
import { readTokenizer } from '../../../src/language/tokenizer/read-tokenizer.ts';
import { testScale } from '../../support/size.ts';

const fixtures = new URL('../fixtures/', import.meta.url);
const folderOf = (family: string) => new URL(family, fixtures).pathname;
/** For each family the one with the same words and normalizer, which has the reference. */
const words: Record<string, string> = {
  llama3: 'llama3',
  qwen2: 'qwen2',
  qwen3: 'qwen2',
  smollm2: 'smollm2',
  hermes: 'llama3',
  gemma3: 'gemma3',
  lfm2: 'llama3',
  granite: 'granite',
  mistral: 'mistral',
};
const families = Object.keys(words);
const unicode = fc.string({ unit: 'binary', maxLength: 200 });
const SEED = 20261122;

interface TokenizerJson {
  model: { type: string; byte_fallback: boolean; vocab: Record<string, number> };
  normalizer: { type: string; normalizers?: { type: string }[] } | null;
  pre_tokenizer: { type: string; pretokenizers: Record<string, unknown>[] };
  added_tokens: Record<string, unknown>[];
}

const tokenOf = ({ model }: TokenizerJson, id: number) =>
  Object.entries(model.vocab).find(([, other]) => other === id)?.[0] ?? '';

describe.each(families)('the tokenizer of a %s checkpoint', (family) => {
  const tokenizer = readTokenizer(folderOf(family));

  it("gives the ids of Hugging Face's tokenizers", () => {
    const reference = JSON.parse(readFileSync(new URL(`${words[family]}.tokens.json`, fixtures), 'utf8'));
    expect(reference.length).toBeGreaterThan(100);
    for (const [text, ids] of reference) expect([text, tokenizer.encode(text)]).toEqual([text, ids]);
  });

  it('writes exactly the bytes of any text, but for those that are no token', () => {
    expect(tokenizer.missingBytes.size).toBe(family === 'smollm2' ? 21 : 0);
    const isWritten = (byte: number) => !tokenizer.missingBytes.has(byte);
    fc.assert(
      fc.property(unicode, (text) => {
        const bytes = tokenizer.encodeExactly(text).flatMap((token) => [...tokenizer.bytes(token)]);
        expect(bytes).toEqual([...Buffer.from(text)].filter(isWritten));
      }),
      { seed: SEED, numRuns: 100 * testScale },
    );
  });

  it('never makes an added token from text, and has a text for each', () => {
    const added = new Set(tokenizer.added.values());
    const texts = [...tokenizer.added.keys()];
    const pieces = fc.array(fc.oneof(fc.constantFrom(...texts), fc.string({ maxLength: 3 })), {
      maxLength: 8,
    });
    fc.assert(
      fc.property(pieces, (parts) => {
        const text = parts.join('');
        expect(tokenizer.encode(text).filter((token) => added.has(token))).toEqual([]);
      }),
      { seed: SEED, numRuns: 100 * testScale },
    );
    for (const [text, id] of tokenizer.added) {
      expect(tokenizer.text(id)).toBe(text);
      expect(tokenizer.decode([id])).toBe(tokenizer.special.has(text) ? '' : text);
    }
  });

  it('takes time in proportion to the text', { timeout: 20_000 }, () => {
    // Would take minutes if any rule were quadratic.
    for (const text of ['a', ' ', '\n ', '= ', '1', 'é'].map((unit) => unit.repeat(50_000)))
      expect(tokenizer.encode(`${text}x`).length).toBeGreaterThan(1000);
  });
});

it('the tokenizer of the models that come with the engine takes time in proportion to the text', {
  timeout: 20_000,
}, () => {
  const { tokenizer } = builtInLanguage();
  for (const text of ['a', ' ', '\n ', '= ', '1', 'é'].map((unit) => unit.repeat(50_000)))
    expect(tokenizer.encode(`${text}x`).length).toBeGreaterThan(1000);
});

/** The folder of a family with another `tokenizer.json`. */
function changed(family: string, change: (file: TokenizerJson) => unknown): string {
  const folder = mkdtempSync(join(tmpdir(), 'tokenizer-'));
  cpSync(folderOf(family), folder, { recursive: true });
  const path = join(folder, 'tokenizer.json');
  const file = JSON.parse(readFileSync(path, 'utf8'));
  change(file);
  writeFileSync(path, JSON.stringify(file));
  return folder;
}

describe('a tokenizer of characters', () => {
  const tokenizer = readTokenizer(folderOf('gemma3'));
  const texts = (tokens: readonly number[]) => tokens.map((token) => tokenizer.text(token));

  it('has tokens that are defined wherever a text has them, and no special one', () => {
    expect(texts(tokenizer.encode('<b>x\n\n\n<table>\n'))).toEqual(['<b>', 'x', '\n\n\n', '<table>', '\n']);
    expect(texts(tokenizer.encode('<eos>'))).not.toContain('<eos>');
    expect([...tokenizer.added.keys()]).toContain('<start_of_turn>');
    expect(tokenizer.added.has('<table>')).toBe(false);
  });

  it('writes what is no token in bytes, and a token that crosses a space as one', () => {
    expect(tokenizer.encode('☃')).toHaveLength(3);
    expect(tokenizer.decode(tokenizer.encode('☃'))).toBe('☃');
    expect(texts(tokenizer.encode('> </'))).toEqual(['> </']);
  });

  it('takes its own sign of a space as a space in prompts, and as itself in replies', () => {
    expect(tokenizer.decode(tokenizer.encode('a▁b'))).toBe('a b');
    expect(tokenizer.decode(tokenizer.encodeExactly('a▁b'))).toBe('a▁b');
  });

  it('prefers the token of a character to that of its byte', () => {
    const trie = new TokenTrie(tokenizer);
    const all = trie.textTokens;
    for (const character of ['a', ' ', '\n', '{'])
      expect([trie.longestToken(all, Buffer.from(character), 0)]).toEqual(tokenizer.encode(character));
  });

  it('lacks special tokens for which the model has no embeddings, but not others', () => {
    const folder = changed('gemma3', () => {});
    const image = tokenizer.added.get('<image_soft_token>');
    writeFileSync(join(folder, 'config.json'), JSON.stringify({ vocab_size: image }));
    const own = readTokenizer(folder);
    expect(own.vocabularySize).toBe(image);
    expect(own.added.has('<image_soft_token>')).toBe(false);
    expect(tokenizer.vocabularySize).toBe((image ?? 0) + 1);
  });
});

describe('a normalizer that is a sequence', () => {
  it.each<[what: string, normalizers: { type: string }[], expected: string]>([
    ['of none changes nothing, as in DeepSeek', [], 'e\u0301'],
    ['of NFC composes characters', [{ type: 'NFC' }], '\u00e9'],
  ])('%s', (_what, normalizers, expected) => {
    const tokenizer = readTokenizer(
      changed('llama3', (file) => (file.normalizer = { type: 'Sequence', normalizers })),
    );
    expect(tokenizer.decode(tokenizer.encode('e\u0301'))).toBe(expected);
  });
});

const withPattern = (Regex: string) => (file: TokenizerJson) =>
  Object.assign(file.pre_tokenizer.pretokenizers[0]!, { pattern: { Regex } });

describe('a tokenizer of another kind', () => {
  const refusals: [string, (file: TokenizerJson) => unknown, RegExp][] = [
    ['Unigram', (file) => (file.model.type = 'Unigram'), /tokenizer\.json: model\.type is "Unigram"/],
    [
      'byte fallback',
      (file) => (file.model.byte_fallback = true),
      /model\.byte_fallback is true\. martingale reads tokenizers of SentencePiece that put no space before a text/,
    ],
    ['another normalizer', (file) => (file.normalizer = { type: 'NFKC' }), /normalizer\.type is "NFKC"/],
    [
      'another normalizer in a sequence',
      (file) =>
        (file.normalizer = { type: 'Sequence', normalizers: [{ type: 'NFC' }, { type: 'Lowercase' }] }),
      /normalizer\.normalizers\.1\.type is "Lowercase"/,
    ],
    ['Metaspace', (file) => (file.pre_tokenizer.type = 'Metaspace'), /pre_tokenizer\.type is "Metaspace"/],
    [
      'a prefix space',
      (file) => (file.pre_tokenizer.pretokenizers[1]!.add_prefix_space = true),
      /add_prefix_space is true/,
    ],
    [
      'another behavior',
      (file) => (file.pre_tokenizer.pretokenizers[0]!.behavior = 'MergedWithNext'),
      /behavior is "MergedWithNext"/,
    ],
    [
      'an added token that takes spaces',
      (file) => (file.added_tokens[0]!.lstrip = true),
      /added_tokens\.0\.lstrip is true/,
    ],
    ['an id without a token', (file) => delete file.model.vocab['!'], /no token has the id 0\./],
    [
      'a token of 5,000 bytes',
      (file) => (file.model.vocab['a'.repeat(5000)] = file.model.vocab[tokenOf(file, 600)]!),
      /model\.vocab\.a{40}\.\.\. is 600\. martingale reads tokens of at most 4096 bytes/,
    ],
    [
      'an added token of 5,000 characters',
      (file) => (file.added_tokens[0]!.content = 'a'.repeat(5000)),
      /added_tokens\.0\.content is .*martingale reads tokens of at most 4096 characters/,
    ],
    [
      '65,537 added tokens',
      (file) => (file.added_tokens = Array(65_537).fill(file.added_tokens[0])),
      /added_tokens\.length is 65537\. martingale reads at most 65536/,
    ],
    [
      'a catastrophic pattern',
      withPattern('(a+)+$'),
      /pretokenizers\.0\.pattern\.Regex is "\(a\+\)\+\$"\. It takes too long/,
    ],
    [
      'an endless pattern',
      withPattern('a'.repeat(4097)),
      /pretokenizers\.0\.pattern\.Regex is .*martingale runs patterns of at most 4096 characters/,
    ],
    [
      'a pattern that is none',
      withPattern('(unclosed'),
      /pretokenizers\.0\.pattern\.Regex is "\(unclosed"\. It does not work: Invalid regular/,
    ],
    ['a gap', (file) => delete file.model.vocab[tokenOf(file, 600)], /no token has the id 600/],
  ];
  it.each(refusals)('is refused: %s', (_, change, message) => {
    expect(() => readTokenizer(changed('qwen2', change))).toThrow(message);
  });

  it('is read if it has words of its own that take time in proportion to the text', () => {
    const tokenizer = readTokenizer(changed('qwen2', withPattern('\\p{L}|\\P{L}')));
    expect(tokenizer.encode('them')).toHaveLength(4);
  });

  it('is refused: another catastrophic pattern', { tags: ['long'] }, () => {
    const folder = changed('qwen2', withPattern('(?:x+x+)+y|\\s+'));
    expect(() => readTokenizer(folder)).toThrow(/pattern\.Regex is .*\. It takes too long/);
  });

  const ofCharacters: [string, (file: TokenizerJson) => unknown, RegExp][] = [
    ['no byte fallback', (file) => (file.model.byte_fallback = false), /model\.byte_fallback is false/],
    [
      'a byte that is no token',
      ({ model }) => {
        model.vocab['<0x4g>'] = model.vocab['<0x41>']!;
        delete model.vocab['<0x41>'];
      },
      /the byte <0x41> has no token/,
    ],
    [
      'another space',
      (file) => Object.assign(file.normalizer ?? {}, { content: '_' }),
      /normalizer\.content is "_"\. martingale runs a normalizer that makes "▁" of spaces/,
    ],
    [
      'other words',
      (file) => Object.assign(file.pre_tokenizer, { pattern: { String: 'a' } }),
      /pre_tokenizer\.pattern\.String is "a"/,
    ],
    ['another step', (file) => (file.pre_tokenizer.type = 'Digits'), /pre_tokenizer\.type is "Digits"/],
  ];
  it.each(ofCharacters)('of characters is refused: %s', (_, change, message) => {
    expect(() => readTokenizer(changed('gemma3', change))).toThrow(message);
  });

  it('is refused without its file', () => {
    expect(() => readTokenizer(tmpdir())).toThrow(/tokenizer\.json does not exist/);
  });
});

describe('a file that is a pointer of Git LFS', () => {
  const pointer = 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 131\n';

  it.each(['tokenizer.json', 'tokenizer_config.json', 'generation_config.json', 'chat_template.jinja'])(
    'is named with the remedy: %s',
    (name) => {
      const folder = mkdtempSync(join(tmpdir(), 'pointer-'));
      cpSync(folderOf('qwen3'), folder, { recursive: true });
      writeFileSync(join(folder, name), pointer);
      expect(() => readChatFormat(folder, readTokenizer(folder))).toThrow(
        `${join(folder, name)} is a pointer of Git LFS, not the file itself. Run \`git lfs pull\`.`,
      );
    },
  );
});
