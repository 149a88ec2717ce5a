import { smallestOf } from './extremes.ts';
import { nameDistance } from './near-names.ts';
import { invalidOption, OptionError } from './option-error.ts';
import { showValue } from './show-value.ts';

/** What the value of an option must be. */
const kinds = {
  function: { fits: (value) => typeof value === 'function', remedy: 'Pass a function.' },
  signal: { fits: (value) => value instanceof AbortSignal, remedy: 'Pass an AbortSignal.' },
  text: { fits: (value) => typeof value === 'string', remedy: 'Pass a text.' },
  /** An empty one would be the working directory. */
  path: { fits: (value) => typeof value === 'string' && value !== '', remedy: 'Pass a path.' },
  number: { fits: Number.isFinite, remedy: 'Pass a number.' },
  whole: { fits: Number.isSafeInteger, remedy: 'Pass a whole number.' },
  /** Whose range the function checks. */
  numeric: { fits: (value) => typeof value === 'number', remedy: 'Pass a number.' },
  object: { fits: (value) => isRecord(value), remedy: 'Pass an object.' },
  /** A whole number from 0. */
  amount: { fits: (value) => isWhole(value, 0), remedy: 'Pass a whole number of at least 0.' },
  count: { fits: (value) => isWhole(value, 1), remedy: 'Pass a whole number of at least 1.' },
  temperature: { fits: (value) => isWithin(value, 0, 2), remedy: 'Pass a number from 0 to 2.' },
  topP: {
    fits: (value) => isWithin(value, 0, 1) && value !== 0,
    remedy: 'Pass a number above 0 and up to 1.',
  },
  minP: { fits: (value) => isWithin(value, 0, 1), remedy: 'Pass a number from 0 to 1.' },
  topK: {
    fits: (value) => isWhole(value, -1),
    remedy: 'Pass a whole number of at least 1, or 0 for all tokens.',
  },
  port: { fits: (value) => isWhole(value, 0, 65_535), remedy: 'Pass a whole number from 0 to 65535.' },
  list: { fits: Array.isArray, remedy: 'Pass a list.' },
  client: { fits: (value) => has(value, 'models'), remedy: 'Pass a client created by `createClient()`.' },
  handle: { fits: (value) => has(value, 'client'), remedy: 'Pass a model created by `openModel()`.' },
  engine: {
    fits: (value) => has(value, 'baseModels'),
    remedy: 'Pass an engine, such as of `createEmbeddedEngine()`.',
  },
  executor: { fits: (value) => has(value, 'run'), remedy: 'Pass an executor, such as `inProcess()`.' },
  module: {
    fits: (value) => value instanceof URL && value.protocol === 'file:',
    remedy: "Pass new URL('./environment.ts', import.meta.url).",
  },
  group: { fits: (value) => has(value, 'trajectories'), remedy: 'Pass a TrajectoryGroup.' },
  evaluation: {
    fits: (value) => has(value, 'perScenario'),
    remedy: 'Pass an evaluation, such as of `await evaluate()` or `await readEvaluation()`.',
  },
} satisfies Record<string, { fits: (value: unknown) => boolean; remedy: string }>;

const isWithin = (value: unknown, least: number, most: number) =>
  typeof value === 'number' && value >= least && value <= most;

const isWhole = (value: unknown, least: number, most = Number.MAX_SAFE_INTEGER) =>
  Number.isSafeInteger(value) && isWithin(value, least, most);

const isRecord = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value);

const has = (value: unknown, name: string) =>
  typeof value === 'object' && value !== null && name in value && Boolean(Reflect.get(value, name));

/**
 * What is known of an option: the kind of its value, or all values that it may have. `true` where the function checks it
 * itself. An option that holds further options has a tree of these if it may be something else too, and `objectOf` one
 * if not.
 */
type KnownOption = true | keyof typeof kinds | readonly (string | boolean)[] | OptionTree | ObjectOption;

/** Names of options, and what is known of each. */
export interface OptionTree {
  readonly [name: string]: KnownOption;
}

class ObjectOption {
  readonly names: OptionTree;

  constructor(names: OptionTree) {
    this.names = names;
  }
}

/** An option whose value is an object with these options. */
export const objectOf = (names: OptionTree): ObjectOption => new ObjectOption(names);

/** The options that an option may hold. */
function namesIn(known: KnownOption): OptionTree | undefined {
  if (known instanceof ObjectOption) return known.names;
  return typeof known === 'object' && !isValues(known) ? known : undefined;
}

const isValues = (known: KnownOption): known is readonly (string | boolean)[] => Array.isArray(known);

/** What to pass instead of a value that does not fit; null if it fits. */
function remedyFor(known: KnownOption, value: unknown): string | null {
  if (known === true || value === undefined) return null;
  if (typeof known === 'string') return kinds[known].fits(value) ? null : kinds[known].remedy;
  if (isValues(known))
    return known.some((one) => one === value) ? null : `Pass ${known.map(showValue).join(' or ')}.`;
  return known instanceof ObjectOption && !isRecord(value)
    ? `Pass an object with ${Object.keys(known.names).join(', ')}.`
    : null;
}

type NameOf<Options> = Options extends readonly unknown[] | ((...args: never) => unknown)
  ? never
  : Options extends object
    ? keyof Options & string
    : never;

/**
 * The names of all options of a type. `satisfies OptionNames<Options>` does not compile if a name is missing or
 * unknown.
 */
export type OptionNames<Options> = Readonly<Record<NameOf<Options>, KnownOption>>;

/** The names without some of them. */
export function omitNames<Names extends OptionTree, Name extends keyof Names>(
  names: Names,
  omitted: readonly Name[],
): Omit<Names, Name>;
export function omitNames(names: OptionTree, omitted: readonly PropertyKey[]): OptionTree {
  return Object.fromEntries(Object.entries(names).filter(([name]) => !omitted.includes(name)));
}

type Path = readonly string[];

/**
 * Names of options in other libraries, in lower case without `-` and `_`. Each maps to the names here, or to advice if
 * there is no such option. Only for names that do not resemble an option's name.
 */
export type OtherWords = Readonly<Record<string, readonly string[] | string>>;

/** Up to this many options, the message lists all of them even if it has a suggestion. */
const shortList = 12;

/**
 * Checks the names of options and the kinds of their values, for callers without a type checker. An unknown option is
 * refused even if its value is `undefined`: otherwise the mistake would only show once it has another value.
 * @param of The function as the message names it, such as `train()`.
 * @param words Names of other libraries for the outermost options.
 * @throws OptionError (`unknown_option`) for the first unknown option. The message suggests the most similar name. Or
 * `invalid_option` for the first value of another kind.
 */
export function checkOptionNames(
  of: string,
  options: object,
  names: OptionTree,
  words: OtherWords = {},
): void {
  const refuseUnknown = (inner: object, known: OptionTree, within: Path): void => {
    for (const [name, value] of Object.entries(inner)) {
      const inside = Object.hasOwn(known, name) ? known[name] : undefined;
      const path = [...within, name];
      if (inside === undefined) {
        const option = path.join('.');
        const advice = adviceOn(path, Object.keys(known), names, words);
        throw new OptionError('unknown_option', `${of} has no option \`${option}\`.${advice}`, {
          option,
          value,
        });
      }
      const remedy = remedyFor(inside, value);
      if (remedy !== null) throw invalidOption('invalid_option', path.join('.'), value, remedy);
      const further = namesIn(inside);
      if (further && isPlainObject(value)) refuseUnknown(value, further, path);
    }
  };
  // A caller without types may pass nothing, or a value in place of the options.
  if (typeof options !== 'object' || options === null)
    throw new OptionError(
      'invalid_option',
      `${of} got ${showValue(options)} in place of its options. Pass an object with some of ${Object.keys(names).join(', ')}.`,
      { option: '', value: options },
    );
  refuseUnknown(options, names, []);
}

/**
 * Checks options as `checkOptionNames` does, and that those without a default are there.
 * @throws OptionError also (`invalid_option`) for the first required option that is missing
 */
export function requireOptions<Names extends OptionTree>(
  of: string,
  options: object,
  names: Names,
  required: readonly (keyof Names & string)[],
): void {
  checkOptionNames(of, options, names);
  for (const name of required) {
    const kind = names[name];
    if (typeof kind === 'string') checkArgument(name, Reflect.get(options, name), kind);
    else if (Reflect.get(options, name) === undefined)
      throw invalidOption('invalid_option', name, undefined, 'It is required.');
  }
}

/**
 * Checks an argument that is not an options object, for callers without a type checker.
 * @throws OptionError (`invalid_option`)
 */
export function checkArgument(name: string, value: unknown, kind: keyof typeof kinds): void {
  if (!kinds[kind].fits(value)) throw invalidOption('invalid_option', name, value, kinds[kind].remedy);
}

/** The end of the message: the option's name here, the options with similar names, or all names. */
function adviceOn(path: Path, known: readonly string[], names: OptionTree, words: OtherWords): string {
  const word = plain(path.at(-1) ?? '');
  const meant = path.length === 1 && Object.hasOwn(words, word) ? words[word] : undefined;
  if (typeof meant === 'string') return ` ${meant}`;
  const nearest = meant?.map((option) => [option]) ?? nearestOptions(path, names);
  const parent = path.slice(0, -1).join('.');
  const guess =
    nearest.length === 0
      ? ''
      : ` Did you mean ${nearest.map((near) => `\`${shown(near, parent)}\``).join(' or ')}?`;
  if (guess !== '' && known.length > shortList) return guess;
  return `${guess} ${parent === '' ? 'It' : `\`${parent}\``} has: ${known.join(', ')}.`;
}

/** The options whose names are most similar to an unknown one; empty if none is similar. */
function nearestOptions(path: Path, names: OptionTree): Path[] {
  const parent = path.slice(0, -1).join('.');
  const typed = plain(path.at(-1) ?? '');
  const ranked = pathsOf(names).map((known) => {
    // Of two equally similar names, the one in the same object ranks first.
    const distance = known.slice(0, -1).join('.') === parent ? 0 : 0.5;
    return { known, rank: nameDistance(typed, plain(known.at(-1) ?? '')) + distance };
  });
  const best = smallestOf(ranked.map(({ rank }) => rank));
  if (best === Number.POSITIVE_INFINITY) return [];
  return ranked
    .filter(({ rank }) => rank === best)
    .map(({ known }) => known)
    .slice(0, 3);
}

/** Ignores case and separators, the most common mix-ups. */
const plain = (name: string) => name.toLowerCase().replaceAll(/[_-]/g, '');

function pathsOf(names: OptionTree): Path[] {
  return Object.entries(names).flatMap(([name, inner]) => [
    [name],
    ...pathsOf(namesIn(inner) ?? {}).map((path) => [name, ...path]),
  ]);
}

/** A dotted path for an option in the unknown option's object; for others, with the objects around it: `a: { b }`. */
function shown(path: Path, parent: string): string {
  const [first = '', ...rest] = path;
  if (rest.length === 0 || path.slice(0, -1).join('.') === parent) return path.join('.');
  return `${first}: { ${shown(rest, '')} }`;
}

/** Only object literals hold options. Handles, schemas and other instances have their own properties. */
function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
