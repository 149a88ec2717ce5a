import type { JsonFields } from '../../../../language/index.ts';
import { isObject } from '../../../../util/json.ts';
import { badCheckpoint } from '../bad-checkpoint.ts';
import type { GgufFields } from './fields.ts';

/** SentencePiece's character for a space. */
const space = '▁';

/** Kinds of tokens in `tokenizer.ggml.token_type`. */
export const kinds = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;

/** The score that llama.cpp gives to tokens that a user of SentencePiece has defined. */
const definedScore = -1000;

/** A tokenizer in characters, as `tokenizer.json` says it: without its added tokens and its post-processor. */
export function characterTokenizer(
  fields: GgufFields,
  { tokens, types }: { tokens: readonly string[]; types: readonly number[] },
): { texts: readonly string[]; parts: object } {
  if (fields.flag('tokenizer.ggml.add_space_prefix') === true)
    throw fields.unsupported(
      'tokenizer.ggml.add_space_prefix',
      'martingale reads tokenizers that put no space before a text.',
    );
  const scores = fields.numbers('tokenizer.ggml.scores').slice(0, tokens.length);
  if (scores.length !== tokens.length)
    throw badCheckpoint(
      `${fields.path}: tokenizer.ggml.scores has ${scores.length} entries, but there are ${tokens.length} tokens. Fetch the file again.`,
    );
  const texts = tokens.map((token, id) =>
    types[id] === kinds.userDefined ? token.replaceAll(' ', space) : token,
  );
  const replace = (from: string, to: string) => ({ type: 'Replace', pattern: { String: from }, content: to });
  const unknown = types.indexOf(kinds.unknown);
  return {
    texts,
    parts: {
      normalizer: replace(' ', space),
      pre_tokenizer: {
        type: 'Split',
        pattern: { String: ' ' },
        behavior: 'MergedWithPrevious',
        invert: false,
      },
      decoder: {
        type: 'Sequence',
        decoders: [replace(space, ' '), { type: 'ByteFallback' }, { type: 'Fuse' }],
      },
      model: {
        type: 'BPE',
        dropout: null,
        unk_token: texts[unknown] ?? null,
        continuing_subword_prefix: null,
        end_of_word_suffix: null,
        fuse_unk: true,
        byte_fallback: true,
        ignore_merges: false,
        vocab: Object.fromEntries(texts.map((token, id) => [token, id])),
        merges: mergesOf(texts, types, scores),
      },
    },
  };
}

/**
 * All pairs of tokens that make a token, in the order in which SentencePiece makes them: by the score of what they make.
 * So does the converter of transformers.
 */
function mergesOf(
  texts: readonly string[],
  types: readonly number[],
  scores: readonly number[],
): [left: string, right: string][] {
  const isMade = (id: number) => types[id] === kinds.normal || types[id] === kinds.userDefined;
  const known = new Set(texts.filter((_, id) => isMade(id)));
  const merges: { left: string; right: string; score: number }[] = [];
  for (const [id, text] of texts.entries()) {
    if (!isMade(id)) continue;
    const score = types[id] === kinds.userDefined ? 0 : (scores[id] as number);
    for (let at = 1; at < text.length; at++) {
      const [left, right] = [text.slice(0, at), text.slice(at)];
      if (known.has(left) && known.has(right)) merges.push({ left, right, score });
    }
  }
  merges.sort(
    (one, other) =>
      other.score - one.score || other.left.length - one.left.length || other.right.length - one.right.length,
  );
  return merges.map(({ left, right }) => [left, right]);
}

/** The scores of such tokens, and the texts that llama.cpp has for them, from the merges of `tokenizer.json`. */
export function characterScores(
  file: JsonFields,
  tokens: readonly string[],
  types: readonly number[],
): { scores: number[]; texts: string[] } {
  const model = file.nested('model')?.fields ?? {};
  const rankOf = new Map<string, number>();
  let previous = '';
  for (const merge of Array.isArray(model.merges) ? model.merges : []) {
    const made = Array.isArray(merge) ? merge.join('') : String(merge).replace(' ', '');
    if (made !== previous && rankOf.has(made) && types[indexOf(model.vocab, made)] === kinds.normal)
      throw file.unsupported(
        'model',
        'llama.cpp merges by scores, which these merges do not have. Export with --merged instead.',
      );
    if (!rankOf.has(made)) rankOf.set(made, rankOf.size);
    previous = made;
  }
  return {
    scores: tokens.map((token, id) => {
      if (types[id] === kinds.userDefined) return definedScore;
      return types[id] === kinds.normal ? -(rankOf.get(token) ?? rankOf.size) : 0;
    }),
    texts: tokens.map((token, id) =>
      types[id] === kinds.userDefined ? token.replaceAll(space, ' ') : token,
    ),
  };
}

const indexOf = (vocab: unknown, token: string) => (isObject(vocab) ? Number(vocab[token]) : -1);
