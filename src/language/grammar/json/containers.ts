import { isObject } from '../../../util/json.ts';
import { LanguageError } from '../../error.ts';
import {
  ANY_CHARACTER,
  type CodePointRange,
  charactersOf,
  choice,
  choiceOf,
  complement,
  type Expression,
  intersection,
  literal,
  optional,
  repeat,
  sequence,
  sequenceOf,
} from '../expression.ts';
import type { SchemaReader } from './keywords.ts';
import type { JsonLayout, SchemaScope } from './layout.ts';
import { jsonSpelling } from './string.ts';

interface Member {
  text: Expression;
  required: boolean;
}

/** Objects with the properties of a schema, in its order, then further ones. Any members if it names no properties. */
export function objectWith(reader: SchemaReader, scope: SchemaScope, place: string): Expression {
  const { properties = {} } = reader.keywords;
  if (!isObject(properties)) return reader.refuse('properties', 'must be an object of schemas');
  const required = new Set((reader.list('required') ?? []).map(String));
  for (const name of required)
    if (!Object.hasOwn(properties, name))
      reader.refuse('required', `has "${name}", which properties has not`);
  const names = Object.keys(properties);
  if (names.length === 0) return openObject(reader, scope, place);
  if (reader.has('propertyNames')) reader.refuse('propertyNames', 'stands beside properties');
  const { layout } = scope;
  const members = Object.entries(properties).map(([name, schema]): Member => {
    const value = scope.compile(schema, `${place}/properties/${pointerStep(name)}`);
    return { text: sequence(layout.name(name), layout.spaced(value)), required: required.has(name) };
  });
  const additional = furtherValues(reader, scope.layout.closed);
  const further = additional === null ? null : furtherMember(names, additional, scope, place);
  return sequence(layout.mark('{'), firstMembers(members, further, scope, place), literal('}'));
}

/** The schema of further properties, or null if there are none. */
function furtherValues(reader: SchemaReader, closed: boolean): unknown {
  const { additionalProperties, unevaluatedProperties } = reader.keywords;
  if (additionalProperties === false || unevaluatedProperties === false) return null;
  return additionalProperties ?? (closed ? null : (unevaluatedProperties ?? true));
}

function furtherMember(
  names: readonly string[],
  additional: unknown,
  scope: SchemaScope,
  place: string,
): Expression {
  const at = `${place}/additionalProperties`;
  const key = keyOtherThan(names, scope, at);
  return scope.share(`${at} member`, scope.layout.member(key, scope.compile(additional, at)));
}

/** An object with any keys: a record, or `{}` if it may only have named properties and none are named. */
function openObject(reader: SchemaReader, scope: SchemaScope, place: string): Expression {
  const {
    properties,
    additionalProperties: additional,
    unevaluatedProperties: unevaluated,
  } = reader.keywords;
  const silentlyClosed = scope.layout.closed && additional === undefined && properties !== undefined;
  if (additional === false || unevaluated === false || silentlyClosed)
    return sequence(scope.layout.mark('{'), literal('}'));
  if (isObject(unevaluated))
    reader.refuse('unevaluatedProperties', 'is a schema: write additionalProperties');
  const names = reader.keywords.propertyNames;
  const key = names === undefined ? scope.layout.anyKey : keysOf(names, reader, scope, place);
  const value = scope.compile(additional ?? true, `${place}/additionalProperties`);
  return scope.layout.objectOf(
    scope.share(`${place}/propertyNames`, key),
    scope.share(`${place}/additionalProperties`, value),
  );
}

function keysOf(names: unknown, reader: SchemaReader, scope: SchemaScope, place: string): Expression {
  const areStrings =
    isObject(names) && (names.type === 'string' || (Array.isArray(names.enum) && names.type === undefined));
  if (!areStrings) reader.refuse('propertyNames', 'must be a schema of strings');
  return scope.compile(names, `${place}/propertyNames`);
}

/** The members of an object before any is written, so that the first one has no comma before it. */
function firstMembers(
  members: readonly Member[],
  further: Expression | null,
  scope: SchemaScope,
  place: string,
): Expression {
  const comma = scope.layout.mark(',');
  let following: Expression = further ? repeat(sequence(comma, further), 0, null) : literal('');
  let first: Expression[] = [further ? optional(sequence(further, following)) : literal('')];
  for (const [index, { text, required }] of [...members.entries()].reverse()) {
    const starting = sequence(text, following);
    if (required) first = [starting];
    else first.push(starting);
    const withComma = sequence(comma, text);
    following = scope.share(
      `${place} after property ${index}`,
      sequence(required ? withComma : optional(withComma), following),
    );
  }
  return choiceOf(first);
}

/** A name as a step of a JSON pointer (RFC 6901), so that no two places have the same name. */
const pointerStep = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1');

/** A prefix of some of the names. */
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
/** Each prefix takes about ten nodes of a byte graph. */
const MAXIMUM_BEGINNINGS = 20_000;
const SPECIAL = complement(PLAIN_ASCII);

/** JSON strings, spelled as by `JSON.stringify`, other than the names. There is one rule for each prefix of a name. */
export function keyOtherThan(names: readonly string[], scope: SchemaScope, place: string): Expression {
  const anyRest = scope.share(
    `${place}/other key`,
    sequence(repeat(jsonSpelling(ANY_CHARACTER), 0, null), literal('"')),
  );
  // Few names have special characters, so most rules can share what follows one.
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

/** Arrays with the items of a schema. All items of `prefixItems` are written. */
export function arrayOf(reader: SchemaReader, scope: SchemaScope, place: string): Expression {
  if (reader.keywords.uniqueItems === true) reader.refuse('uniqueItems', 'cannot be enforced');
  if (reader.has('additionalItems'))
    reader.refuse('additionalItems', 'is of an older draft: write prefixItems and items');
  if (Array.isArray(reader.keywords.items)) reader.refuse('items', 'is of an older draft: write prefixItems');
  const first = (reader.list('prefixItems') ?? []).map((schema, index) =>
    scope.compile(schema, `${place}/prefixItems/${index}`),
  );
  const { items } = reader.keywords;
  const closed = items === false || (items === undefined && first.length > 0);
  const minimum = reader.count('minItems') ?? 0;
  const maximum = closed ? first.length : reader.count('maxItems');
  if (first.length > (reader.count('maxItems') ?? first.length))
    reader.refuse('maxItems', 'is below prefixItems');
  if (maximum !== null && minimum > maximum) reader.refuse('minItems', 'is more than the array may have');
  const rest = closed ? null : scope.share(`${place}/items`, scope.compile(items ?? true, `${place}/items`));
  return sequence(scope.layout.mark('['), written(first, rest, minimum, maximum, scope.layout), literal(']'));
}

function written(
  first: Expression[],
  rest: Expression | null,
  minimum: number,
  maximum: number | null,
  layout: JsonLayout,
): Expression {
  const comma = layout.mark(',');
  const listed = first.flatMap((item, index) =>
    index === 0 ? [layout.spaced(item)] : [comma, layout.spaced(item)],
  );
  if (!rest) return sequenceOf(listed);
  const further = sequence(comma, layout.spaced(rest));
  const most = (taken: number) => (maximum === null ? null : maximum - taken);
  if (first.length > 0)
    return sequenceOf([...listed, repeat(further, Math.max(0, minimum - first.length), most(first.length))]);
  if (maximum === 0) return literal('');
  const some = sequence(layout.spaced(rest), repeat(further, Math.max(0, minimum - 1), most(1)));
  return minimum > 0 ? some : optional(some);
}
