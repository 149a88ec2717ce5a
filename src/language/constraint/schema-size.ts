import { invalidField, type Location } from '../error.ts';

/** Most characters of JSON of everything that constrains one reply. */
export const largestConstraint = 2 ** 20;

/** Most schemas, keywords and branches examined for one request: some tens of milliseconds. */
const mostSteps = 2 ** 17;

/** Refuses tools that are longer together, including descriptions, than a constraint may be. */
export function refuseLongTools(tools: readonly unknown[] | undefined, location: Location): void {
  if (tools === undefined || charactersOfJson(tools, largestConstraint) <= largestConstraint) return;
  throw invalidField(
    location,
    `have more than ${largestConstraint} characters of JSON together, and that is the most; give fewer tools, or shorter ones`,
    tools,
  );
}

/** A schema of a request, and its path there. */
export interface LocatedSchema {
  schema: unknown;
  location: Location;
}

/** Limits the work on the schemas of one request. A few references can lead to one large schema many times. */
export class SchemaRoom {
  #steps = 0;
  #characters = 0;

  /** Counts steps. Throws a 422 that names the schema `at` if there are too many. */
  takeSteps(steps: number, at: LocatedSchema): void {
    this.#steps += steps;
    if (this.#steps > mostSteps)
      throw invalidField(
        at.location,
        `its references and branches take more than ${mostSteps} steps to narrow to the objects that they admit, and that is the most; define fewer schemas in each other, or give each the type "object"`,
        at.schema,
      );
  }

  /** The same for the characters of a generated schema. */
  takeCharactersOf(schema: unknown, at: LocatedSchema): void {
    this.#characters += charactersOfJson(schema, largestConstraint - this.#characters);
    if (this.#characters > largestConstraint)
      throw invalidField(
        at.location,
        `its references make more than ${largestConstraint} characters of JSON once they are narrowed to the objects that they admit, and that is the most; refer to fewer schemas in each other, or give each the type "object"`,
        at.schema,
      );
  }
}

/**
 * Characters of a value's JSON, not counting escapes. Stops counting above `most`, so that a value that is far too
 * large takes no longer.
 */
export function charactersOfJson(value: unknown, most: number): number {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value !== 'object' || value === null) return String(value).length;
  // The brackets, minus the comma that the last entry lacks.
  let characters = 1;
  if (Array.isArray(value)) {
    for (const item of value) {
      characters += 1 + charactersOfJson(item, most - characters);
      if (characters > most) return characters;
    }
    return Math.max(2, characters);
  }
  for (const [name, member] of Object.entries(value)) {
    if (member === undefined) continue;
    characters += name.length + 4 + charactersOfJson(member, most - characters);
    if (characters > most) return characters;
  }
  return Math.max(2, characters);
}
