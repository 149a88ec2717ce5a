import { largestOf, smallestOf } from '../../../util/extremes.ts';
import { isObject } from '../../../util/json.ts';
import { LanguageError } from '../../error.ts';
import type { JsonSchema } from '../constraint.ts';
import { constrains } from './keywords.ts';

/** A schema, and the JSON pointer to it, for messages. */
export interface Located {
  schema: unknown;
  path: string;
  /** The schemas with `unevaluatedProperties` or `unevaluatedItems` that this one is a part of. Default none. */
  scopes?: readonly JsonSchema[] | undefined;
  /** The schema that this one is without some keywords. Default: itself. */
  origin?: JsonSchema | undefined;
}

/** A schema object of a conjunction. */
export interface SchemaPart {
  schema: JsonSchema;
  path: string;
  scopes: readonly JsonSchema[];
  /** The schema that this one is without some keywords. */
  origin: JsonSchema;
}

/** Schemas that a value must match together, such as `allOf`'s schemas and the keywords beside it. */
export class Conjunction {
  readonly parts: readonly SchemaPart[];

  constructor(parts: readonly SchemaPart[]) {
    this.parts = parts;
  }

  get path(): string {
    return this.parts[0]?.path ?? '#';
  }

  has(keyword: string): boolean {
    return this.parts.some(({ schema }) => schema[keyword] !== undefined);
  }

  values(keyword: string): unknown[] {
    return this.parts.flatMap(({ schema }) => (schema[keyword] === undefined ? [] : [schema[keyword]]));
  }

  /** The greatest value of a keyword; null if no schema has it. */
  greatest(keyword: string): number | null {
    const numbers = this.numbers(keyword);
    return numbers.length === 0 ? null : largestOf(numbers);
  }

  least(keyword: string): number | null {
    const numbers = this.numbers(keyword);
    return numbers.length === 0 ? null : smallestOf(numbers);
  }

  numbers(keyword: string): number[] {
    return this.values(keyword).map((value) =>
      typeof value === 'number' && Number.isFinite(value)
        ? value
        : this.refuse(keyword, 'must be a number that a double can hold'),
    );
  }

  /** Refuses values that are not counts. */
  checkCounts(...keywords: string[]): void {
    for (const keyword of keywords)
      for (const value of this.numbers(keyword))
        if (!Number.isInteger(value) || value < 0)
          this.refuse(keyword, 'must be a whole number of at least 0');
  }

  strings(keyword: string): string[] {
    return this.values(keyword).map((value) =>
      typeof value === 'string' ? value : this.refuse(keyword, 'must be a string'),
    );
  }

  refuse(keyword: string, why: string): never {
    const part = this.parts.find(({ schema }) => schema[keyword] !== undefined) ?? this.parts[0];
    throw refusal(part?.path ?? '#', keyword, part?.schema[keyword], why);
  }
}

/** A schema object, and where it is. */
type Place = Pick<SchemaPart, 'schema' | 'path'>;

export function listOf({ schema, path }: Place, keyword: string): unknown[] {
  const value = schema[keyword] ?? [];
  if (!Array.isArray(value)) throw refusal(path, keyword, value, 'must be an array');
  return value;
}

export function namesOf(part: Place, keyword: string): string[] {
  return listOf(part, keyword).map((name) => {
    if (typeof name !== 'string') throw refusal(part.path, keyword, name, 'must be an array of names');
    return name;
  });
}

export function schemasOf({ schema, path }: Place, keyword: string): [string, unknown][] {
  const value = schema[keyword] ?? {};
  if (!isObject(value)) throw refusal(path, keyword, value, 'must be an object of schemas');
  return Object.entries(value);
}

/** The error for a keyword that cannot be enforced. */
export function refusal(path: string, keyword: string, value: unknown, why: string): LanguageError {
  const json = JSON.stringify(value);
  const shown = json === undefined ? '' : ` (${json.length > 80 ? `${json.slice(0, 80)}…` : json})`;
  return new LanguageError(
    'schema_unsupported',
    `JSON schema, ${path}: "${keyword}"${shown} ${why}. Change the schema, or check the value in your code.`,
  );
}

/** Whether a schema has keywords that constrain values. */
export const isConstraining = (schema: JsonSchema): boolean =>
  Object.keys(schema).some((keyword) => schema[keyword] !== undefined && constrains(keyword));
