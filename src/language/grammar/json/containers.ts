import { isObject } from '../../../util/json.ts';
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
  optional,
  rangesOf,
  repeat,
  sequence,
} from '../expression.ts';
import type { SchemaReader } from './keywords.ts';
import type { SchemaScope } from './layout.ts';
import { jsonSpelling } from './string.ts';

interface Member {
  text: Expression;
  required: boolean;
}

/** Objects with the properties of a schema, in its order, then further ones. Any members if it names no properties. */
export function objectWith(reader: SchemaReader, scope: SchemaScope, path: string): Expression {
  const { properties = {} } = reader.keywords;
  if (!isObject(properties)) return reader.refuse('properties', 'must be an object of schemas');
  const required = new Set((reader.list('required') ?? []).map(String));
  for (const name of required)
    if (!Object.hasOwn(properties, name))
      reader.refuse('required', `has "${name}", which is not in properties`);
  const names = Object.keys(properties);
  if (names.length === 0) return openObject(reader, scope, path);
  if (reader.has('propertyNames')) reader.refuse('propertyNames', 'cannot be combined with properties');
  const { layout } = scope;
  const members = Object.entries(properties).map(([name, schema]): Member => {
    const value = scope.compile(schema, `${path}/properties/${pointerStep(name)}`);
    return { text: sequence([layout.name(name), layout.withSpace(value)]), required: required.has(name) };
  });
  const additional = furtherValues(reader, layout.closed);
  const further = additional === null ? null : furtherMember(names, additional, scope, path);
  return layout.enclosed('{', membersOf(members, further, scope, path), '}');
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
  path: string,
): Expression {
  const at = `${path}/additionalProperties`;
  const key = keyOtherThan(names, scope, at);
  return scope.defineRule(`${at} member`, scope.layout.member(key, scope.compile(additional, at)));
}

/** An object with any keys: a record, or `{}` if it may only have named properties and none are named. */
function openObject(reader: SchemaReader, scope: SchemaScope, path: string): Expression {
  const { layout } = scope;
  const {
    properties,
    additionalProperties: additional,
    unevaluatedProperties: unevaluated,
    propertyNames: names,
  } = reader.keywords;
  const silentlyClosed = layout.closed && additional === undefined && properties !== undefined;
  if (additional === false || unevaluated === false || silentlyClosed)
    return layout.enclosed('{', literal(''), '}');
  if (isObject(unevaluated)) reader.refuse('unevaluatedProperties', 'is a schema: use additionalProperties');
  const areStrings =
    isObject(names) && (names.type === 'string' || (Array.isArray(names.enum) && names.type === undefined));
  if (names !== undefined && !areStrings) reader.refuse('propertyNames', 'must be a schema of strings');
  const key = names === undefined ? layout.anyKey : scope.compile(names, `${path}/propertyNames`);
  const value = scope.compile(additional ?? true, `${path}/additionalProperties`);
  return layout.objectOf(
    scope.defineRule(`${path}/propertyNames`, key),
    scope.defineRule(`${path}/additionalProperties`, value),
  );
}

/** The members of an object. The first one that is written has no comma before it. */
function membersOf(
  members: readonly Member[],
  further: Expression | null,
  scope: SchemaScope,
  path: string,
): Expression {
  const comma = scope.layout.punctuation(',');
  let following: Expression = further ? repeat(sequence([comma, further]), 0, null) : literal('');
  let first: Expression[] = [further ? optional(sequence([further, following])) : literal('')];
  for (const [index, { text, required }] of [...members.entries()].reverse()) {
    const starting = sequence([text, following]);
    if (required) first = [starting];
    else first.push(starting);
    const withComma = sequence([comma, text]);
    following = scope.defineRule(
      `${path} after property ${index}`,
      sequence([required ? withComma : optional(withComma), following]),
    );
  }
  return choice(first);
}

/** A name as a step of a JSON pointer (RFC 6901), so that different names give different paths. */
const pointerStep = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1');

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

/** JSON strings, spelled as by `JSON.stringify`, other than the names. There is one rule for each prefix of a name. */
function keyOtherThan(names: readonly string[], scope: SchemaScope, path: string): Expression {
  const anyRest = scope.defineRule(
    `${path}/other key`,
    sequence([repeat(jsonSpelling(ANY_CHARACTER), 0, null), literal('"')]),
  );
  // Few names have special characters, so most rules can share what follows one.
  const specialRest = scope.defineRule(
    `${path}/other key, special`,
    sequence([jsonSpelling(SPECIAL), anyRest]),
  );
  const ruleName = ({ index }: Prefix) => `${path}/other key ${index}`;
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
      `JSON schema, ${path}: the property names have more than ${maxPrefixes} characters from which other names must be distinguished: set additionalProperties to false, or use fewer properties`,
    );
  for (const prefix of prefixes) {
    const taken = rangesOf(prefix.next.keys());
    const plain = intersection(complement(taken), PLAIN_ASCII);
    const special = intersection(complement(taken), SPECIAL);
    const takesSpecial = intersection(taken, SPECIAL).length > 0;
    scope.defineRule(
      ruleName(prefix),
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

/** Arrays with the items of a schema. All items of `prefixItems` are written. */
export function arrayOf(reader: SchemaReader, scope: SchemaScope, path: string): Expression {
  if (reader.keywords.uniqueItems === true) reader.refuse('uniqueItems', 'cannot be enforced');
  if (reader.has('additionalItems'))
    reader.refuse('additionalItems', 'is from an older draft: use prefixItems and items');
  const { items } = reader.keywords;
  if (Array.isArray(items)) reader.refuse('items', 'is from an older draft: use prefixItems');
  const first = (reader.list('prefixItems') ?? []).map((schema, index) =>
    scope.compile(schema, `${path}/prefixItems/${index}`),
  );
  const closed = items === false || (items === undefined && first.length > 0);
  const minimum = reader.count('minItems') ?? 0;
  const maximum = closed ? first.length : reader.count('maxItems');
  if (first.length > (reader.count('maxItems') ?? first.length))
    reader.refuse('maxItems', 'is less than the number of prefixItems');
  if (maximum !== null && minimum > maximum) reader.refuse('minItems', 'is more than the array may have');
  const { layout } = scope;
  const listed = layout.listed(first);
  if (closed) return layout.enclosed('[', sequence(listed), ']');
  const item = scope.defineRule(`${path}/items`, scope.compile(items ?? true, `${path}/items`));
  if (maximum === 0) return layout.enclosed('[', literal(''), ']');
  const written = Math.max(first.length, 1);
  const further = repeat(
    sequence([layout.punctuation(','), layout.withSpace(item)]),
    Math.max(0, minimum - written),
    maximum === null ? null : maximum - written,
  );
  if (first.length > 0) return layout.enclosed('[', sequence([...listed, further]), ']');
  const some = sequence([layout.withSpace(item), further]);
  return layout.enclosed('[', minimum > 0 ? some : optional(some), ']');
}
