import { LanguageError } from '../../error.ts';
import type { JsonSchema } from '../constraint.ts';
import { anyOf, type Expression, literal, sequence } from '../expression.ts';
import { argumentTypes } from './argument-types.ts';
import type { Located } from './conjunction.ts';
import { KeywordArguments } from './keyword-arguments.ts';
import { type CompileIn, JsonLayout, TextLayout } from './layout.ts';

/** Ends a parameter, so that no text contains it. */
const close = '</parameter>';

/** Texts that are read as a value of another type, where an argument may have that type. */
const readAs: Readonly<Record<string, string>> = {
  null: '^(null|None)$',
  boolean: '^([Tt]rue|[Ff]alse)$',
  number: String.raw`^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$`,
  object: String.raw`^\{`,
  array: String.raw`^\[`,
};

/** Outside of objects and lists, words are those of Python, as Qwen's templates write them. */
const scalarLayout = new JsonLayout({ whitespace: ' ?', isPython: true });

/** Arguments as `<parameter=city>\nRome\n</parameter>\n`: texts as they are, other values as JSON. */
export class ParameterArguments extends KeywordArguments {
  readonly #values: JsonLayout;
  readonly #parameters: JsonSchema;
  readonly #label: string;

  constructor(values: JsonLayout, label: string, parameters: JsonSchema) {
    super(values, label);
    this.#values = values;
    this.#parameters = parameters;
    this.#label = label;
  }

  override get separator(): Expression {
    return literal('');
  }

  override property(name: string, value: Expression): Expression {
    if (/^[^\s<>]+$/.test(name)) return this.member(literal(name), value);
    throw new LanguageError(
      'schema_unsupported',
      `JSON schema, ${this.#label} #: the property ${JSON.stringify(name)} cannot be the name of a parameter, as this model writes calls. Use a name without spaces and angle brackets.`,
    );
  }

  override member(key: Expression, value: Expression): Expression {
    return sequence([literal('<parameter='), key, literal('>\n'), value, literal(`\n${close}\n`)]);
  }

  argument(name: string | null, schemas: readonly Located[], compileIn: CompileIn): Expression {
    const types = argumentTypes(this.#parameters, name ?? '\0');
    const others = [...types].filter((type) => type !== 'string');
    const ofTypes = (type: string[]): Located[] => [
      ...schemas,
      { schema: { type }, path: `${this.#label} #` },
    ];
    const excluded = [close, ...others.flatMap((type) => readAs[type] ?? [])];
    const isPart = (type: string) => type === 'object' || type === 'array';
    const kinds: [JsonLayout, string[]][] = [
      [new TextLayout(excluded), types.has('string') ? ['string'] : []],
      [this.#values, others.filter(isPart)],
      [scalarLayout, others.filter((type) => !isPart(type))],
    ];
    return anyOf(
      kinds.flatMap(([layout, some]) => (some.length > 0 ? [compileIn(layout, ofTypes(some))] : [])),
    );
  }

  override constant(value: unknown): Expression {
    throw new LanguageError(
      'schema_unsupported',
      `JSON schema, ${this.#label} #: ${JSON.stringify(value)} as enum or const of all arguments cannot be enforced, as this model writes calls. Describe each property.`,
    );
  }
}
