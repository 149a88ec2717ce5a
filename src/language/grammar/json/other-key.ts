import { getOrInsert } from '../../../util/get-or-insert.ts';
import { LanguageError } from '../../error.ts';
import {
  ANY_CHARACTER,
  type CodePointRange,
  characters,
  choice,
  complement,
  type Expression,
  insertText,
  intersection,
  literal,
  rangesOf,
  repeat,
  sequence,
} from '../expression.ts';
import type { SchemaScope } from './scope.ts';
import { jsonSpelling } from './string.ts';

/** A prefix of some of the names. */
interface Prefix {
  index: number;
  isName: boolean;
  next: Map<number, Prefix>;
}

const PLAIN_ASCII: CodePointRange[] = [
  [0x20, 0x21],
  [0x23, 0x5b],
  [0x5d, 0x7e],
];
/** Each prefix takes about ten nodes of a byte graph. */
const maxPrefixes = 20_000;
const SPECIAL = complement(PLAIN_ASCII);

/** Objects that are merged with several schemas have the same names again and again. */
const knownKeys = new WeakMap<SchemaScope, Map<string, Expression>>();

/** JSON strings, spelled as by `JSON.stringify`, other than the names. */
export function keyOtherThan(names: readonly string[], scope: SchemaScope, path: string): Expression {
  const known = knownKeys.get(scope) ?? new Map<string, Expression>();
  knownKeys.set(scope, known);
  return getOrInsert(known, JSON.stringify([...names].sort()), () => trieOfOthers(names, scope, path));
}

/** There is one rule for each prefix of a name. */
function trieOfOthers(names: readonly string[], scope: SchemaScope, path: string): Expression {
  const label = scope.newLabel();
  const anyRest = scope.defineRule(sequence([repeat(jsonSpelling(ANY_CHARACTER), 0, null), literal('"')]));
  // Few names have special characters, so most rules can share what follows one.
  const specialRest = scope.defineRule(sequence([jsonSpelling(SPECIAL), anyRest]));
  const ruleName = ({ index }: Prefix) => `${label} ${index}`;
  const prefixes: Prefix[] = [];
  const add = () => {
    const prefix: Prefix = { index: prefixes.length, isName: false, next: new Map() };
    prefixes.push(prefix);
    return prefix;
  };
  const root = add();
  for (const name of names) insertText(root, name, add).isName = true;
  if (prefixes.length > maxPrefixes)
    throw new LanguageError(
      'grammar_too_large',
      `JSON schema, ${path}: the property names have more than ${maxPrefixes} characters from which other names must be distinguished. Set additionalProperties to false, or use fewer properties.`,
    );
  for (const prefix of prefixes) {
    const taken = rangesOf(prefix.next.keys());
    const plain = intersection(complement(taken), PLAIN_ASCII);
    const special = intersection(complement(taken), SPECIAL);
    const takesSpecial = intersection(taken, SPECIAL).length > 0;
    scope.ruleNamed(ruleName(prefix), () =>
      choice([
        ...Array.from(prefix.next, ([code, longer]) =>
          sequence([jsonSpelling([[code, code]]), scope.ruleNamed(ruleName(longer))]),
        ),
        ...(plain.length > 0 ? [sequence([characters(plain), anyRest])] : []),
        takesSpecial ? sequence([jsonSpelling(special), anyRest]) : specialRest,
        ...(prefix.isName ? [] : [literal('"')]),
      ]),
    );
  }
  return sequence([literal('"'), scope.ruleNamed(ruleName(root))]);
}
