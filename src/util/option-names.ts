import { MartingaleError } from '../contract/index.ts';

/** Names of options. An option that is an object of options itself has their names, or `true` where they are free. */
export interface OptionTree {
  readonly [name: string]: true | OptionTree;
}

type NameOf<Options> = Options extends readonly unknown[] | ((...given: never) => unknown)
  ? never
  : Options extends object
    ? keyof Options & string
    : never;

/**
 * The names of all options of a type. `satisfies OptionNames<Options>` does not compile where one is missing, or where
 * there is one that the type does not have.
 */
export type OptionNames<Options> = Readonly<Record<NameOf<Options>, true | OptionTree>>;

/** An option that a function does not have: nothing of the call has been done. */
export class UnknownOptionError extends MartingaleError {
  /** The function, as people write it. */
  readonly of: string;
  /** With the options that it is within: `validation.everyStep`. */
  readonly option: string;
  /** The options with the nearest names, likewise, the nearest first; empty where none is near. */
  readonly nearest: readonly string[];

  constructor(
    of: string,
    path: readonly string[],
    { nearest, known, advice }: { nearest: readonly Path[]; known: readonly string[]; advice?: string },
  ) {
    const option = path.join('.');
    const parent = path.slice(0, -1).join('.');
    const guess = nearest.map((near) => `\`${shown(near, parent)}\``);
    const isShort = known.length <= shortList;
    const list =
      guess.length > 0 && !isShort
        ? ''
        : ` ${parent === '' ? 'It' : `\`${parent}\``} has: ${known.join(', ')}.`;
    const guesses = guess.length > 0 ? ` Did you mean ${guess.join(' or ')}?` : '';
    super(
      'unknown_option',
      `${of} has no option \`${option}\`.${advice === undefined ? `${guesses}${list}` : ` ${advice}`}`,
    );
    this.of = of;
    this.option = option;
    this.nearest = nearest.map((near) => near.join('.'));
  }
}

type Path = readonly string[];

/**
 * What people call an option elsewhere, in lower case without joints, with the options that it is here, or with advice
 * where it is none of these. For names that are not near those of the options.
 */
export type OtherWords = Readonly<Record<string, readonly string[] | string>>;

/** Options that a message lists although it has a guess. */
const shortList = 12;

/**
 * For callers whom no type has checked. An unknown option is refused with the value `undefined` too: it is a slip all
 * the same, and would be found only on the day on which it has another value.
 * @param of The function, for the message: `train()`.
 * @param words Other words for the outermost options.
 * @throws UnknownOptionError for the first option that is not among the names.
 */
export function checkOptionNames(of: string, given: object, names: OptionTree, words: OtherWords = {}): void {
  const refuseUnknown = (options: object, known: OptionTree, within: Path): void => {
    for (const [name, value] of Object.entries(options)) {
      const inner = Object.hasOwn(known, name) ? known[name] : undefined;
      const path = [...within, name];
      if (inner === undefined) {
        const word = plain(name);
        const meant = within.length === 0 && Object.hasOwn(words, word) ? words[word] : undefined;
        throw new UnknownOptionError(of, path, {
          known: Object.keys(known),
          ...(typeof meant === 'string'
            ? { nearest: [], advice: meant }
            : { nearest: meant?.map((option) => [option]) ?? nearestOptions(path, names) }),
        });
      }
      if (inner !== true && isPlainObject(value)) refuseUnknown(value, inner, path);
    }
  };
  refuseUnknown(given, names, []);
}

/** The options with the nearest names to an unknown one; none where no name is near. */
function nearestOptions(path: Path, names: OptionTree): Path[] {
  const parent = path.slice(0, -1).join('.');
  const given = plain(path.at(-1) ?? '');
  const ranked = pathsOf(names).map((known) => {
    // Of two that are as near, the one beside it.
    const away = known.slice(0, -1).join('.') === parent ? 0 : 0.5;
    return { known, rank: rankOf(given, plain(known.at(-1) ?? '')) + away };
  });
  const best = Math.min(...ranked.map(({ rank }) => rank));
  if (best === Number.POSITIVE_INFINITY) return [];
  return ranked
    .filter(({ rank }) => rank === best)
    .map(({ known }) => known)
    .slice(0, 3);
}

/** Upper and lower case, and how words are joined, are what people mix up first. */
const plain = (name: string) => name.toLowerCase().replaceAll(/[_-]/g, '');

/** 0 for the same name. Slips come before names that have the other in them. */
function rankOf(given: string, name: string): number {
  const edits = editDistance(given, name);
  if (edits <= Math.max(1, Math.floor(Math.min(given.length, name.length) / 3))) return edits;
  const [short, long] = given.length < name.length ? [given, name] : [name, given];
  return short.length >= 4 && long.includes(short) ? 100 : Number.POSITIVE_INFINITY;
}

/** Insertions, deletions, replacements and swaps of neighbours (optimal string alignment). */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      const edits = [(row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + cost];
      if (a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) edits.push((before[j - 2] ?? 0) + 1);
      next.push(Math.min(...edits));
    }
    [before, row] = [row, next];
  }
  return row[b.length] ?? 0;
}

function pathsOf(names: OptionTree): Path[] {
  return Object.entries(names).flatMap(([name, inner]) => [
    [name],
    ...(inner === true ? [] : pathsOf(inner).map((path) => [name, ...path])),
  ]);
}

/** As it is written: beside the unknown one with its dots, elsewhere as the objects that it belongs into. */
function shown(path: Path, parent: string): string {
  const [first = '', ...rest] = path;
  if (rest.length === 0 || path.slice(0, -1).join('.') === parent) return path.join('.');
  return `${first}: { ${shown(rest, '')} }`;
}

/** What is written as `{ ... }`; handles, schemas and other instances have their own properties. */
function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
