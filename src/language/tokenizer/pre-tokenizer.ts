import { type Context, createContext, Script } from 'node:vm';
import { Tokenizer as HuggingFaceTokenizer } from '@huggingface/tokenizers';
import { messageOf } from '../../util/error.ts';
import type { JsonFields } from './json-fields.ts';

/** Longest pattern of a pre-tokenizer, in characters. Published ones have up to 300. */
const maxPattern = 4096;

/** The words of GPT-2, which the pre-tokenizer `ByteLevel` finds unless it has `use_regex: false`. */
const gpt2Words = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/**
 * Patterns that need no probe, which takes each thread that opens a tokenizer 10 to 30 ms: of GPT-2, Llama 3, Qwen 2,
 * Mistral's Tekken, and the models that come with the engine. Tests hold their time.
 */
const quickPatterns = new Set([
  gpt2Words,
  ...['{1,3}', ''].map(
    (count) =>
      `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}${count}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`,
  ),
  '[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+',
  "'(?:s|t|re|ve|m|ll|d)| ?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
]);

/**
 * The splits into words, one after the other. All become patterns of the library's `Split`, which has Rust's classes of
 * characters; its `Digits` and `ByteLevel` have JavaScript's, which differ.
 */
export function splitterOf(file: JsonFields): (text: string) => string[] {
  const type = file.get('pre_tokenizer.type');
  const names =
    type === 'Sequence'
      ? file.list('pre_tokenizer.pretokenizers').map((_, index) => `pre_tokenizer.pretokenizers.${index}`)
      : ['pre_tokenizer'];
  const patterns = names.flatMap((name) => patternOf(file, name) ?? []);
  if (!names.some((name) => file.get(`${name}.type`) === 'ByteLevel'))
    throw file.unsupported('pre_tokenizer.type', 'martingale reads byte-level tokenizers.');
  if (patterns.length === 0) return (text) => [text];
  checkPatterns(file, names);
  return splitterBy(patterns);
}

/** @throws the library's error for an invalid pattern */
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

/**
 * How much processor time a pattern may take for probes of a few thousand characters, in milliseconds. Published ones take
 * about one for each.
 */
const probeMs = 1000;
/** The longest time on a busy machine. */
const longestProbeMs = 32_000;

/**
 * Refuses an invalid pattern, and one whose time grows faster than the text, such as `(a+)+$`: callers choose the texts.
 * The probes are long runs of one character: of each kind that patterns tell apart, and of each that the pattern names.
 */
function checkPatterns(file: JsonFields, names: readonly string[]): void {
  for (const name of names) {
    const pattern = patternOf(file, name);
    if (pattern === null || quickPatterns.has(pattern)) continue;
    const field = `${name}.pattern.Regex`;
    if (pattern.length > maxPattern)
      throw file.unsupported(field, `martingale runs patterns of at most ${maxPattern} characters.`);
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
    let isQuick: boolean;
    try {
      isQuick = runs(context);
    } catch (error) {
      throw file.unsupported(field, `It does not work: ${messageOf(error)}`);
    }
    if (!isQuick) throw file.unsupported(field, 'It takes too long for texts of some thousand characters.');
  }
}

/** Whether `run()` of a context takes no more than its time. A limit of a script counts the time of other programs too. */
function runs(context: Context): boolean {
  for (let timeout = probeMs; ; timeout *= 2) {
    const before = processorMs();
    try {
      new Script('run()').runInContext(context, { timeout });
      return true;
    } catch (error) {
      // Not an Error of this realm.
      const isSlow =
        typeof error === 'object' &&
        error !== null &&
        'code' in error &&
        error.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';
      if (!isSlow) throw error;
      // A limit that passes on an idle machine is a little less in processor time.
      if (processorMs() - before >= probeMs / 2 || timeout >= longestProbeMs) return false;
    }
  }
}

/** Of this thread; all time where Node does not tell, which is before 23.9. */
function processorMs(): number {
  if (!('threadCpuUsage' in process)) return performance.now();
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** The pattern of one step of the pre-tokenizer; null if it does not split. */
function patternOf(file: JsonFields, name: string): string | null {
  const type = file.get(`${name}.type`);
  if (type === 'ByteLevel') {
    file.expect(`${name}.add_prefix_space`, false, 'martingale adds no space before a text.');
    return file.get(`${name}.use_regex`) === false ? null : gpt2Words;
  }
  if (type === 'Digits') return file.get(`${name}.individual_digits`) === true ? '\\p{N}' : '\\p{N}+';
  if (type !== 'Split')
    throw file.unsupported(`${name}.type`, 'martingale runs ByteLevel, Digits and Split.');
  file.expect(`${name}.behavior`, 'Isolated', 'martingale runs a Split that is "Isolated".');
  if (file.flag(`${name}.invert`, false))
    throw file.unsupported(
      `${name}.invert`,
      'martingale runs a Split at matches of its pattern, not between them.',
    );
  const pattern = file.get(`${name}.pattern.Regex`);
  if (typeof pattern === 'string') return pattern;
  throw file.unsupported(`${name}.pattern`, 'martingale runs a Split at a Regex.');
}
