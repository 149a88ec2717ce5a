/**
 * Learns the vocabulary of the embedded models and writes it as the `tokenizer.json` of
 * `src/engines/embedded/built-in`:
 *
 *     tsx test/language/tokenizer/learn-vocabulary.ts FILE... && npm run format
 *
 * The files it was made from: conversations.txt and records.json of this folder, and the 60 largest READMEs of
 * node_modules. Markdown files give technical prose, JSON files give JSON (as written, and once more without spaces),
 * other files are conversation. Each of the three kinds has its share of the weight, whatever its size.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { BYTE_SYMBOLS } from '../../../src/language/tokenizer/byte-level.ts';
import { learnMerges, type Merge } from './merges.ts';
import { ADDED_TOKENS, BEGIN_TOKEN, isSpecial, MERGE_COUNT, WORD_PATTERN } from './vocabulary.ts';

type Kind = 'conversation' | 'prose' | 'json';
const SHARES: Record<Kind, number> = { conversation: 0.6, prose: 0.2, json: 0.2 };

function kindOf(path: string): Kind {
  if (path.endsWith('.md')) return 'prose';
  return path.endsWith('.json') ? 'json' : 'conversation';
}

/** The English text of Markdown: without fenced code, link targets, HTML tags, tables and list markers. */
function proseOf(markdown: string): string {
  return markdown
    .replace(/```[\s\S]*?```/g, ' ')
    .replace(/`[^`]*`|<[^>]*>|https?:\S+|\]\([^)]*\)/g, ' ')
    .split('\n')
    .filter((line) => /^[A-Z][^|#]*[.!?]$/.test(line.trim()))
    .join('\n');
}

/** A JSON document in both layouts, the compact one twice. */
function jsonOf(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    return `${JSON.stringify(value)}\n${JSON.stringify(value)}\n${JSON.stringify(value, null, 1).replace(/\n */g, ' ')}`;
  } catch {
    return '';
  }
}

function readText(path: string): string {
  const text = readFileSync(path, 'utf8');
  const kind = kindOf(path);
  if (kind === 'prose') return proseOf(text);
  return kind === 'json' ? jsonOf(text) : text;
}

function weigh(paths: string[]): Map<string, number> {
  const counts: Record<Kind, Map<string, number>> = {
    conversation: new Map(),
    prose: new Map(),
    json: new Map(),
  };
  for (const path of paths) {
    const kindCounts = counts[kindOf(path)];
    for (const [word] of readText(path).matchAll(new RegExp(WORD_PATTERN, 'gu')))
      kindCounts.set(word, (kindCounts.get(word) ?? 0) + 1);
  }
  const weights = new Map<string, number>();
  for (const kind of ['conversation', 'prose', 'json'] as const) {
    const total = [...counts[kind].values()].reduce((sum, count) => sum + count, 0);
    for (const [word, count] of counts[kind])
      weights.set(word, (weights.get(word) ?? 0) + (SHARES[kind] * count) / total);
  }
  return weights;
}

function tokenizerFile(merges: Merge[]): object {
  const symbols = [...BYTE_SYMBOLS, ...merges.map(([left, right]) => left + right)];
  const firstAdded = symbols.length;
  const begin = { SpecialToken: { id: BEGIN_TOKEN, type_id: 0 } };
  const text = (id: 'A' | 'B') => ({ Sequence: { id, type_id: 0 } });
  const beginId = firstAdded + ADDED_TOKENS.indexOf(BEGIN_TOKEN);
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    normalizer: null,
    post_processor: {
      type: 'TemplateProcessing',
      single: [begin, text('A')],
      pair: [begin, text('A'), text('B')],
      special_tokens: { [BEGIN_TOKEN]: { id: BEGIN_TOKEN, ids: [beginId], tokens: [BEGIN_TOKEN] } },
    },
    added_tokens: ADDED_TOKENS.map((content, index) => ({
      id: firstAdded + index,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: isSpecial(content),
    })),
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        { type: 'Split', pattern: { Regex: WORD_PATTERN }, behavior: 'Isolated', invert: false },
        { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false },
      ],
    },
    decoder: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(symbols.map((symbol, id) => [symbol, id])),
      merges,
    },
  };
}

const merges = learnMerges(weigh(process.argv.slice(2)), MERGE_COUNT);
if (merges.length < MERGE_COUNT)
  throw new Error(`the files gave only ${merges.length} of ${MERGE_COUNT} merges: name more of them`);
const target = new URL('../../../src/engines/embedded/built-in/tokenizer.json', import.meta.url);
writeFileSync(target, `${JSON.stringify(tokenizerFile(merges))}\n`);
console.error(
  `${merges.length} merges: ${merges.map((pair) => pair.join('').replaceAll('Ġ', '_')).join(' ')}`,
);
