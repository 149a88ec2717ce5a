import { LanguageError } from '../../error.ts';
import {
  type CodePointRange,
  charactersOf,
  choice,
  type Expression,
  literal,
  repeat,
  sequence,
} from '../expression.ts';
import { ANY_CHARACTER, complement, intersection } from '../regex/character-set.ts';
import type { SchemaScope } from './schema.ts';
import { jsonSpelling } from './string.ts';

/** What some names begin with. */
interface Beginning {
  index: number;
  isName: boolean;
  longer: Map<number, Beginning>;
}

const PLAIN_ASCII: CodePointRange[] = [
  [0x20, 0x21],
  [0x23, 0x5b],
  [0x5d, 0x7e],
];
/** Each takes about ten nodes of a byte graph. */
const MAXIMUM_BEGINNINGS = 20_000;
const SPECIAL = complement(PLAIN_ASCII);

/** JSON strings, spelled as `JSON.stringify` would, that are none of the names: a rule for each of their beginnings. */
export function keyOtherThan(names: readonly string[], scope: SchemaScope, place: string): Expression {
  const anyRest = scope.share(
    `${place}/other key`,
    sequence(repeat(jsonSpelling(ANY_CHARACTER), 0, null), literal('"')),
  );
  // Few names have special characters, so that most rules can share what follows one.
  const specialRest = scope.share(`${place}/other key, special`, sequence(jsonSpelling(SPECIAL), anyRest));
  const ruleName = ({ index }: Beginning) => `${place}/other key ${index}`;
  const beginnings = beginningsOf(names);
  if (beginnings.length > MAXIMUM_BEGINNINGS)
    throw new LanguageError(
      'grammar_too_large',
      `JSON schema, ${place}: the names of the properties have more than ${MAXIMUM_BEGINNINGS} characters that further names must be told from: set additionalProperties to false, or have fewer properties`,
    );
  for (const beginning of beginnings) {
    const taken = [...beginning.longer.keys()].map((code): CodePointRange => [code, code]);
    const plain = intersection(complement(taken), PLAIN_ASCII);
    const special = intersection(complement(taken), SPECIAL);
    const takesSpecial = intersection(taken, SPECIAL).length > 0;
    scope.share(
      ruleName(beginning),
      choice(
        ...[...beginning.longer].map(([code, longer]) =>
          sequence(jsonSpelling([[code, code]]), scope.called(ruleName(longer))),
        ),
        ...(plain.length > 0 ? [sequence(charactersOf(plain), anyRest)] : []),
        takesSpecial ? sequence(jsonSpelling(special), anyRest) : specialRest,
        ...(beginning.isName ? [] : [literal('"')]),
      ),
    );
  }
  return sequence(literal('"'), scope.called(`${place}/other key 0`));
}

function beginningsOf(names: readonly string[]): Beginning[] {
  const beginnings: Beginning[] = [];
  const add = (): Beginning => {
    const beginning = { index: beginnings.length, isName: false, longer: new Map<number, Beginning>() };
    beginnings.push(beginning);
    return beginning;
  };
  const root = add();
  for (const name of names) {
    let beginning = root;
    for (const character of name) {
      const code = character.codePointAt(0) ?? 0;
      const longer = beginning.longer.get(code) ?? add();
      beginning.longer.set(code, longer);
      beginning = longer;
    }
    beginning.isName = true;
  }
  return beginnings;
}
