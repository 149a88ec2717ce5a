import type { JsonSchema } from '../../constraint/constraint.ts';
import { LanguageError } from '../../error.ts';

/** Keywords that describe a schema and do not constrain its values. */
const ANNOTATIONS = new Set([
  '$schema',
  '$id',
  'id',
  '$anchor',
  '$comment',
  '$defs',
  'definitions',
  'title',
  'description',
  'default',
  'examples',
  'example',
  'deprecated',
  'readOnly',
  'writeOnly',
  'contentEncoding',
  'contentMediaType',
]);

/** Keywords that the grammar of each type enforces. */
export const KEYWORDS_OF_TYPE: Readonly<Record<string, readonly string[]>> = {
  string: ['minLength', 'maxLength', 'pattern', 'format'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
  integer: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
  boolean: [],
  null: [],
  array: ['items', 'prefixItems', 'additionalItems', 'minItems', 'maxItems', 'uniqueItems'],
  object: ['properties', 'required', 'additionalProperties', 'unevaluatedProperties', 'propertyNames'],
};

/** Reads the keywords of one schema, and refuses those that cannot be enforced. */
export class SchemaReader {
  readonly keywords: JsonSchema;
  readonly path: string;

  constructor(schema: JsonSchema, path: string) {
    this.keywords = schema;
    this.path = path;
  }

  has(keyword: string): boolean {
    return this.keywords[keyword] !== undefined;
  }

  /** Refuses every keyword that is neither an annotation nor allowed. */
  allowOnly(...allowed: string[]): void {
    for (const keyword of Object.keys(this.keywords))
      if (
        this.has(keyword) &&
        !ANNOTATIONS.has(keyword) &&
        !keyword.startsWith('x-') &&
        !allowed.includes(keyword)
      )
        this.refuse(keyword, 'cannot be enforced here');
  }

  number(keyword: string): number | null {
    const value = this.keywords[keyword];
    if (value === undefined) return null;
    return typeof value === 'number' && Number.isFinite(value)
      ? value
      : this.refuse(keyword, 'must be a number');
  }

  count(keyword: string): number | null {
    const value = this.number(keyword);
    if (value === null || (Number.isInteger(value) && value >= 0)) return value;
    return this.refuse(keyword, 'must be a whole number of at least 0');
  }

  string(keyword: string): string | null {
    const value = this.keywords[keyword];
    if (value === undefined) return null;
    return typeof value === 'string' ? value : this.refuse(keyword, 'must be a string');
  }

  list(keyword: string): unknown[] | null {
    const value = this.keywords[keyword];
    if (value === undefined) return null;
    return Array.isArray(value) ? value : this.refuse(keyword, 'must be an array');
  }

  refuse(keyword: string, why: string): never {
    const value = JSON.stringify(this.keywords[keyword]);
    const shown = value === undefined ? '' : ` (${value.length > 80 ? `${value.slice(0, 80)}…` : value})`;
    throw new LanguageError(
      'schema_unsupported',
      `JSON schema, ${this.path}: "${keyword}"${shown} ${why}; change the schema, or check the value in your code`,
    );
  }
}
