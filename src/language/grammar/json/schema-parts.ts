import { getOrInsert } from '../../../util/get-or-insert.ts';
import { isObject } from '../../../util/json.ts';
import { LanguageError } from '../../error.ts';
import type { JsonSchema } from '../constraint.ts';
import { maxSchemaDepth } from '../limits.ts';
import { isConstraining, type Located, listOf, refusal, type SchemaPart } from './conjunction.ts';
import type { References } from './references.ts';

/** The schemas that hold together, while they are gathered. */
interface PartsWalk {
  parts: SchemaPart[];
  /** The schemas on the path to the current one. */
  open: Set<JsonSchema>;
  /** Keys of the schemas that are among the parts, together with all that hold with them. */
  added: Set<string>;
}

/**
 * Gathers the schemas that hold together. Each part of them has no `$ref` and no `allOf`: their schemas are parts too.
 * A schema without some of its keywords is the same object each time, so that equal conjunctions have equal keys.
 */
export class SchemaParts {
  readonly #references: References;
  readonly #label: string;
  /** Hears where a schema is `false`. */
  readonly #onFalse: (path: string) => void;
  readonly #numbers = new Map<unknown, number>();
  readonly #remainders = new Map<JsonSchema, Map<string, JsonSchema>>();

  constructor(references: References, label: string, onFalse: (path: string) => void) {
    this.#references = references;
    this.#label = label;
    this.#onFalse = onFalse;
  }

  /** The parts of schemas that hold together; null if nothing matches all of them. */
  gather(schemas: readonly Located[]): SchemaPart[] | null {
    const parts: SchemaPart[] = [];
    const walk = { parts, open: new Set<JsonSchema>(), added: new Set<string>() };
    return schemas.every((schema) => this.#add(schema, walk)) ? parts : null;
  }

  /** Equal for equal schemas. */
  keyOf({ schema, scopes }: Pick<SchemaPart, 'schema' | 'scopes'>): string {
    return [schema, ...scopes].map((one) => this.numberOf(one)).join('/');
  }

  /** A number that identifies an object. */
  numberOf(schema: object): number {
    return getOrInsert(this.#numbers, schema, () => this.#numbers.size);
  }

  /** Adds a schema and those that hold with it, each once. False if nothing matches it. */
  #add(located: Located, walk: PartsWalk): boolean {
    const { schema, path, scopes = [] } = located;
    if (schema === true) return true;
    if (schema === false) {
      this.#onFalse(path);
      return false;
    }
    if (!isObject(schema)) throw refusal(path, 'schema', schema, 'must be an object, true or false');
    // A schema that only leads to itself admits nothing.
    if (walk.open.has(schema)) return false;
    const leadsOn = schema.$ref !== undefined || schema.allOf !== undefined;
    const key = leadsOn ? this.keyOf({ schema, scopes }) : '';
    if (leadsOn && walk.added.has(key)) return true;
    const { parts, open, added } = walk;
    if (open.size > maxSchemaDepth) throw tooDeep(path);
    const own = this.remainder(schema, ['$ref', 'allOf']);
    const part = { schema: own, path, scopes, origin: located.origin ?? schema };
    if (isConstraining(own) && !parts.some((one) => one.schema === own && sameScopes(one.scopes, scopes)))
      parts.push(part);
    if (!leadsOn) return true;
    open.add(schema);
    const isPossible = this.#heldWith(schema, part).every((one) => this.#add(one, walk));
    open.delete(schema);
    added.add(key);
    return isPossible;
  }

  /** The schemas of `$ref` and `allOf`. */
  #heldWith(schema: JsonSchema, part: SchemaPart): Located[] {
    const { path } = part;
    const scopes = scopesWithin(part);
    const found: Located[] = [];
    if (schema.$ref !== undefined) {
      const target = this.#references.targetOf(schema);
      if (target === undefined) throw refusal(path, '$ref', schema.$ref, 'has no target in this schema');
      found.push({ schema: target, path: `${this.#label} ${schema.$ref}`, scopes });
    }
    if (schema.allOf !== undefined)
      for (const [index, one] of listOf({ ...part, schema }, 'allOf').entries())
        found.push({ schema: one, path: `${path}/allOf/${index}`, scopes });
    return found;
  }

  /** The schema without keywords; the same object each time. */
  remainder(schema: JsonSchema, keywords: string[], make?: () => JsonSchema): JsonSchema {
    if (keywords.every((keyword) => schema[keyword] === undefined && !make)) return schema;
    const without = () =>
      Object.fromEntries(Object.entries(schema).filter(([name]) => !keywords.includes(name)));
    const known = getOrInsert(this.#remainders, schema, () => new Map<string, JsonSchema>());
    return getOrInsert(known, keywords.join(), make ?? without);
  }
}

/** The scopes of the schemas within a part. */
export const scopesWithin = ({ schema, origin, scopes }: SchemaPart): readonly JsonSchema[] =>
  schema.unevaluatedProperties === undefined && schema.unevaluatedItems === undefined
    ? scopes
    : [...scopes, origin];

export const tooDeep = (path: string): LanguageError =>
  new LanguageError(
    'grammar_too_large',
    `JSON schema, ${path.slice(0, 200)}: schemas are nested more than ${maxSchemaDepth} deep, counting references. Use shorter chains.`,
  );

const sameScopes = (left: readonly JsonSchema[], right: readonly JsonSchema[]): boolean =>
  left.length === right.length && left.every((one, index) => one === right[index]);
