import { isObject } from '../../../util/json.ts';
import { LanguageError } from '../../error.ts';
import { choice, type Expression, literal, sequence } from '../expression.ts';
import { anyMatch, plainSpelling } from '../regex.ts';
import { regularExpression, regularStates } from '../regular.ts';
import type { JsonLayout, ObjectLayout } from './layout.ts';
import type { SchemaScope } from './scope.ts';

/** What has no character that would end a name or an argument. Names such as `from` or `user-id` are read too. */
const readable = /^[^\s=,()[\]{}'"]+$/;
const anyName = anyMatch('^[A-Za-z_][A-Za-z0-9_]*$', plainSpelling);

/** The arguments of a call in Python, `city="Rome", days=3`, in place of an object's members. Values have a layout of their own. */
export class KeywordArguments implements ObjectLayout {
  readonly #values: JsonLayout;
  readonly #label: string;

  /** `label` names the schema in messages. */
  constructor(values: JsonLayout, label: string) {
    this.#values = values;
    this.#label = label;
  }

  get separator(): Expression {
    return this.#values.separator;
  }

  property(name: string, value: Expression): Expression {
    if (readable.test(name)) return this.member(literal(name), value);
    throw new LanguageError(
      'schema_unsupported',
      `JSON schema, ${this.#label} #: the property ${JSON.stringify(name)} cannot be the name of an argument in Python, as this model writes calls. Use a name without spaces, quotes, brackets, commas and equals signs.`,
    );
  }

  member(key: Expression, value: Expression): Expression {
    return sequence([key, literal('='), this.#values.withSpace(value)]);
  }

  object(members: Expression): Expression {
    return members;
  }

  constant(value: unknown): Expression {
    const members = Object.entries(isObject(value) ? value : {});
    return sequence(
      this.#values.listed(members.map(([name, item]) => this.property(name, this.#values.constant(item)))),
    );
  }
}

/** Names of Python other than these. */
export function argumentOtherThan(names: readonly string[], scope: SchemaScope): Expression {
  const states = regularStates([anyName], names.length > 0 ? [choice(names.map(literal))] : []) ?? [];
  const label = scope.newLabel();
  return regularExpression(states, plainSpelling, (index, body) =>
    scope.ruleNamed(`${label} ${index}`, body),
  );
}
