import { getOrInsert } from '../../util/get-or-insert.ts';
import { LanguageError } from '../error.ts';
import {
  characters,
  choice,
  complement,
  type Expression,
  insertText,
  literal,
  rangesOf,
  rule,
  sequence,
} from './expression.ts';

export interface FreeText {
  /** What must follow once a trigger has been written. The text continues only if `follow` says so. */
  triggers: readonly { text: string; follow: Expression }[];
  /** Texts that must not occur. */
  excluded: readonly string[];
}

/** A suffix of the text so far that may begin a trigger or an excluded text. */
interface Suffix {
  /** The next suffix for each character. All other characters lead to the empty suffix. */
  next: Map<number, Suffix>;
  /** The longest other suffix that this one ends with. */
  shorter: Suffix | null;
  index: number;
  follow: Expression[];
  excluded: boolean;
}

/** About as many as a byte graph holds. */
const maxSteps = 100_000;

/**
 * The rules of any text, one for each suffix (Aho and Corasick 1975). The text may end after any character. A trigger
 * counts as soon as its last character is written. `name` is the rule of an empty text.
 */
export function freeTextRules({ triggers, excluded }: FreeText, name: string): Map<string, Expression> {
  const nameOf = ({ index }: Suffix) => (index === 0 ? name : `${name} ${index}`);
  const rules = new Map<string, Expression>();
  for (const suffix of suffixesOf(triggers, excluded)) {
    const codes = new Map<Suffix, number[]>();
    for (const [code, target] of suffix.next) getOrInsert(codes, target, () => []).push(code);
    const others = characters(complement(rangesOf(suffix.next.keys())));
    const alternatives = [literal(''), sequence([others, rule(name)])];
    for (const [target, group] of codes) {
      const written = characters(rangesOf(group));
      if (target.follow.length > 0) alternatives.push(sequence([written, choice(target.follow)]));
      else if (!target.excluded) alternatives.push(sequence([written, rule(nameOf(target))]));
    }
    rules.set(nameOf(suffix), choice(alternatives));
  }
  return rules;
}

function suffixesOf(triggers: FreeText['triggers'], excluded: FreeText['excluded']): Suffix[] {
  const suffixes: Suffix[] = [];
  const add = () => {
    const suffix: Suffix = {
      next: new Map(),
      shorter: null,
      index: suffixes.length,
      follow: [],
      excluded: false,
    };
    suffixes.push(suffix);
    return suffix;
  };
  const root = add();
  for (const { text, follow } of triggers) insertText(root, text, add).follow.push(follow);
  for (const text of excluded) insertText(root, text, add).excluded = true;
  completeSteps(root);
  return suffixes;
}

/** Adds to each suffix the steps of the shorter suffixes that it ends with, shortest first. */
function completeSteps(root: Suffix): void {
  let steps = 0;
  const pending = [...root.next.values()];
  for (const child of pending) child.shorter = root;
  for (const suffix of pending) {
    const { shorter, next } = suffix;
    if (!shorter) continue;
    if (shorter.follow.length > 0) suffix.follow = [...suffix.follow, ...shorter.follow];
    if (shorter.excluded) suffix.excluded = true;
    for (const [code, child] of next) {
      child.shorter = shorter.next.get(code) ?? root;
      pending.push(child);
    }
    for (const [code, target] of shorter.next) if (!next.has(code)) next.set(code, target);
    steps += next.size;
    if (steps > maxSteps)
      throw new LanguageError(
        'grammar_too_large',
        `Free text with these triggers, ends and excluded strings needs more than ${maxSteps} steps. Use fewer or shorter ones.`,
      );
  }
}
