import { integerOf } from './arguments.ts';
import { strip } from './python-text.ts';
import { isNumeric, TemplateError, typeName, type Value } from './value.ts';

const digits = String.raw`\d+(?:_\d+)*`;
const decimal = new RegExp(`^[+-]?${digits}$`);
const float = new RegExp(`^[+-]?(?:${digits}\\.?(?:${digits})?|\\.${digits})(?:e[+-]?${digits})?$`, 'i');
const prefixes: Readonly<Record<number, { prefix: string; digit: string }>> = {
  2: { prefix: '0b', digit: '[01]' },
  8: { prefix: '0o', digit: '[0-7]' },
  16: { prefix: '0x', digit: '[\\da-f]' },
};

/** Python's `int(text, base)`; null if the text is not a whole number. */
export function parseInteger(text: string, base: number): bigint | null {
  const trimmed = strip(text, null).toLowerCase();
  if (base === 10)
    return decimal.test(trimmed) ? BigInt(trimmed.replaceAll('_', '').replace(/^\+/, '')) : null;
  const form = prefixes[base];
  if (!form) throw new TemplateError(`int reads numbers of base 2, 8, 10 and 16 only, not of base ${base}`);
  const { prefix, digit } = form;
  const found = new RegExp(`^([+-]?)(?:${prefix}_?)?(${digit}+(?:_${digit}+)*)$`).exec(trimmed);
  if (!found) return null;
  const size = BigInt(prefix + (found[2] ?? '').replaceAll('_', ''));
  return found[1] === '-' ? -size : size;
}

/** Python's `float(text)`; null if the text is not a number. */
export function parseFloatText(text: string): number | null {
  const trimmed = strip(text, null);
  if (float.test(trimmed)) return Number(trimmed.replaceAll('_', ''));
  const word = /^([+-]?)(inf|infinity|nan)$/i.exec(trimmed);
  if (!word) return null;
  return word[2]?.toLowerCase() === 'nan' ? Number.NaN : word[1] === '-' ? -Infinity : Infinity;
}

export function absolute(value: Value): Value {
  if (typeof value === 'number') return Math.abs(value);
  if (!isNumeric(value)) throw new TemplateError(`abs takes a number, not ${typeName(value)}`);
  const whole = BigInt(value);
  return whole < 0n ? -whole : whole;
}

/** The filter `round`. */
export function rounded(value: Value, precision: Value = 0n, method: Value = 'common'): Value {
  const places = integerOf(precision);
  if (!isNumeric(value)) throw new TemplateError(`round takes a number, not ${typeName(value)}`);
  if (places < 0) throw new TemplateError(`round takes no negative precision here, such as ${places}`);
  const number = Number(value);
  if (method === 'ceil') return Math.ceil(number * 10 ** places) / 10 ** places;
  if (method === 'floor') return Math.floor(number * 10 ** places) / 10 ** places;
  if (method !== 'common') throw new TemplateError('the method of round is common, ceil or floor');
  return typeof value === 'number' ? halfToEven(value, places) : BigInt(value);
}

/** JavaScript rounds the exact value as Python does, except for the half, which it rounds away from zero. */
function halfToEven(value: number, places: number): number {
  if (places >= 100 || !Number.isFinite(value) || Number.isInteger(value)) return value;
  const exact = value.toFixed(100);
  const point = exact.indexOf('.');
  const kept = exact.slice(0, places === 0 ? point : point + 1 + places);
  const isHalf = /^50*$/.test(exact.slice(point + 1 + places));
  return Number(isHalf && /[02468]$/.test(kept) ? kept : value.toFixed(places));
}
