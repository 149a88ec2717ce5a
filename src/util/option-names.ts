import { smallestOf } from './extremes.ts';
import { nameDistance } from './near-names.ts';
import { OptionError } from './option-error.ts';

/**
 * Names of options. An option that holds further options has its own tree, or `true` if their names are not checked.
 */
export interface OptionTree {
  readonly [name: string]: true | OptionTree;
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
export type OptionNames<Options> = Readonly<Record<NameOf<Options>, true | OptionTree>>;

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
 * Checks the names of options, for callers without a type checker. An unknown option is refused even if its value is
 * `undefined`: otherwise the mistake would only show once it has another value.
 * @param of The function as the message names it, such as `train()`.
 * @param words Names of other libraries for the outermost options.
 * @throws OptionError (`unknown_option`) for the first unknown option. The message suggests the most similar name.
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
      if (inside !== true && isPlainObject(value)) refuseUnknown(value, inside, path);
    }
  };
  refuseUnknown(options, names, []);
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
    ...(inner === true ? [] : pathsOf(inner).map((path) => [name, ...path])),
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
