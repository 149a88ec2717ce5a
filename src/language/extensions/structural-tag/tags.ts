import { isObject } from '../../../util/json.ts';
import { LanguageError } from '../../error.ts';

export interface Tag {
  begin: string;
  content: unknown;
  /** One of these closes it. */
  ends: string[];
  path: string;
}

export function readTag(value: unknown, path: string): Tag {
  const fields = new Fields(value, path, ['type', 'begin', 'content', 'end']);
  if (fields.has('type') && fields.value('type') !== 'tag') fields.refuse('type', 'must be "tag"');
  const ends = Array.isArray(fields.value('end')) ? fields.strings('end') : [fields.string('end')];
  if (ends.length === 0) fields.refuse('end', 'is empty');
  return { begin: fields.string('begin'), content: fields.value('content'), ends, path };
}

/** Each tag must begin with exactly one trigger, and each trigger must begin a tag. */
export function checkTriggers(fields: Fields, triggers: readonly string[], tags: readonly Tag[]): void {
  if (triggers.length === 0) fields.refuse('triggers', 'is empty');
  if (triggers.includes('')) fields.refuse('triggers', 'has an empty string');
  if (new Set(triggers).size < triggers.length) fields.refuse('triggers', 'has the same trigger twice');
  const used = new Set<string>();
  for (const { begin, path } of tags) {
    const begins = triggers.filter((trigger) => begin.startsWith(trigger));
    if (begins.length !== 1)
      fields.refuse(
        'triggers',
        begins.length === 0
          ? `has none that ${path}.begin (${JSON.stringify(begin)}) begins with`
          : `has ${JSON.stringify(begins[0])} and ${JSON.stringify(begins[1])}, but ${path}.begin begins with both`,
      );
    used.add(begins[0] ?? '');
  }
  const unused = triggers.find((trigger) => !used.has(trigger));
  if (unused !== undefined)
    fields.refuse('triggers', `has ${JSON.stringify(unused)}, which no tag begins with`);
  const hiding = triggers.find((trigger) =>
    triggers.some((other) => other !== trigger && other.slice(0, -1).includes(trigger)),
  );
  if (hiding !== undefined)
    fields.refuse(
      'triggers',
      `has ${JSON.stringify(hiding)} inside another, which could then never be written`,
    );
}

/** Reads the fields of one part of a structural tag. `null` means absent. */
export class Fields {
  readonly path: string;
  readonly #values: Record<string, unknown>;

  constructor(value: unknown, path: string, known: readonly string[] | null = null) {
    this.path = path;
    if (!isObject(value))
      throw refusal(path, `must be an object, not ${JSON.stringify(value)?.slice(0, 80)}`);
    this.#values = value;
    if (known) this.allowOnly(known);
  }

  has(name: string): boolean {
    return this.#values[name] !== undefined && this.#values[name] !== null;
  }

  value(name: string): unknown {
    return this.#values[name] ?? undefined;
  }

  allowOnly(known: readonly string[]): void {
    for (const name of Object.keys(this.#values))
      if (this.has(name) && !known.includes(name)) this.refuse(name, 'is not supported here');
  }

  string(name: string): string {
    return this.#text(name, this.value(name));
  }

  strings(name: string): string[] {
    return this.list(name).map((value, index) => this.#text(`${name}[${index}]`, value));
  }

  list(name: string): unknown[] {
    const value = this.value(name);
    return Array.isArray(value) ? value : this.refuse(name, 'must be an array');
  }

  /** Default false. */
  flag(name: string): boolean {
    const value = this.value(name) ?? false;
    return typeof value === 'boolean' ? value : this.refuse(name, 'must be true or false');
  }

  integer(name: string, minimum: number): number {
    const value = this.value(name);
    return typeof value === 'number' && Number.isSafeInteger(value) && value >= minimum
      ? value
      : this.refuse(name, `must be a whole number, ${minimum} or more`);
  }

  refuse(name: string, why: string): never {
    const value = JSON.stringify(this.value(name));
    const shown = value === undefined ? '' : ` (${value.length > 80 ? `${value.slice(0, 80)}…` : value})`;
    throw refusal(this.path, `"${name}"${shown} ${why}`);
  }

  #text(name: string, value: unknown): string {
    if (typeof value !== 'string') return this.refuse(name, 'must be a string');
    return value.isWellFormed() ? value : this.refuse(name, 'has half of a surrogate pair');
  }
}

function refusal(path: string, what: string): LanguageError {
  return new LanguageError('structural_tag_unsupported', `Structural tag, ${path}: ${what}.`);
}
