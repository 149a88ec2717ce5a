import { LanguageError } from '../../error.ts';
import {
  type CodePointRange,
  charactersOf,
  choiceOf,
  complement,
  type Expression,
  literal,
  rule,
  sequence,
} from '../../grammar/expression.ts';

export interface FreeText {
  /** What must follow once a trigger has been written. The text continues only if `follow` says so. */
  triggers: readonly { text: string; follow: Expression }[];
  /** Texts that must not occur. */
  barred: readonly string[];
}

/** A suffix of the text so far that may begin a trigger or a barred text. */
interface Ending {
  /** The next ending for each character. All other characters lead to the empty ending. */
  next: Map<number, Ending>;
  /** The longest other ending that this one ends with. */
  shorter: Ending | null;
  index: number;
  follow: Expression[];
  barred: boolean;
}

/** About as many as a byte graph holds. */
const MAXIMUM_STEPS = 100_000;

/**
 * Any text, with one rule per ending (Aho and Corasick 1975). The text may end after any character. A trigger counts as
 * soon as its last character is written. `name` is the rule of an empty text.
 */
export function freeText(
  { triggers, barred }: FreeText,
  name: string,
): { start: Expression; rules: Map<string, Expression> } {
  const ruleOf = ({ index }: Ending) => rule(index === 0 ? name : `${name} ${index}`);
  const rules = new Map<string, Expression>();
  for (const ending of endingsOf(triggers, barred)) {
    const groups = new Map<Ending, CodePointRange[]>();
    for (const [code, target] of ending.next) {
      const group = groups.get(target) ?? [];
      group.push([code, code]);
      groups.set(target, group);
    }
    const taken = [...ending.next.keys()].map((code): CodePointRange => [code, code]);
    const alternatives = [literal(''), sequence(charactersOf(complement(taken)), rule(name))];
    for (const [target, group] of groups)
      if (target.follow.length > 0) alternatives.push(sequence(charactersOf(group), choiceOf(target.follow)));
      else if (!target.barred) alternatives.push(sequence(charactersOf(group), ruleOf(target)));
    rules.set(ending.index === 0 ? name : `${name} ${ending.index}`, choiceOf(alternatives));
  }
  return { start: rule(name), rules };
}

function endingsOf(triggers: FreeText['triggers'], barred: FreeText['barred']): Ending[] {
  const endings: Ending[] = [];
  const add = (): Ending => {
    const ending = { next: new Map(), shorter: null, index: endings.length, follow: [], barred: false };
    endings.push(ending);
    return ending;
  };
  const root = add();
  const endingAfter = (text: string): Ending => {
    let ending = root;
    for (const character of text) {
      const code = character.codePointAt(0) ?? 0;
      const longer = ending.next.get(code) ?? add();
      ending.next.set(code, longer);
      ending = longer;
    }
    return ending;
  };
  for (const { text, follow } of triggers) endingAfter(text).follow.push(follow);
  for (const text of barred) endingAfter(text).barred = true;
  completeSteps(root);
  return endings;
}

/** Adds to each ending the steps of the shorter endings that it ends with, shortest first. */
function completeSteps(root: Ending): void {
  let steps = 0;
  const pending = [...root.next.values()];
  for (const child of pending) child.shorter = root;
  for (const ending of pending) {
    const { shorter, next } = ending;
    if (!shorter) continue;
    if (shorter.follow.length > 0) ending.follow = [...ending.follow, ...shorter.follow];
    if (shorter.barred) ending.barred = true;
    for (const [code, child] of next) {
      child.shorter = shorter.next.get(code) ?? root;
      pending.push(child);
    }
    for (const [code, target] of shorter.next) if (!next.has(code)) next.set(code, target);
    steps += next.size;
    if (steps > MAXIMUM_STEPS)
      throw new LanguageError(
        'grammar_too_large',
        `free text with these triggers, ends and excluded strings needs more than ${MAXIMUM_STEPS} steps: have fewer or shorter ones`,
      );
  }
}
