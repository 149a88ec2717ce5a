import { LanguageError } from '../../error.ts';

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Reads the fields of one part of a structural tag. `null` means absent. What is not read is refused. */
export class Fields {
  readonly place: string;
  readonly #values: Record<string, unknown>;

  constructor(value: unknown, place: string, known: readonly string[] | null = null) {
    this.place = place;
    if (!isObject(value))
      throw refusal(place, `must be an object, not ${JSON.stringify(value)?.slice(0, 80)}`);
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

  /** Absent: false. */
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
    throw refusal(this.place, `"${name}"${shown} ${why}`);
  }

  #text(name: string, value: unknown): string {
    if (typeof value !== 'string') return this.refuse(name, 'must be a string');
    return value.isWellFormed() ? value : this.refuse(name, 'has half a character');
  }
}

function refusal(place: string, what: string): LanguageError {
  return new LanguageError('structural_tag_unsupported', `structural tag, ${place}: ${what}`);
}
