import { spend, step } from './budget.ts';
import { floatText, Namespace, TemplateError, typeName, type Value } from './value.ts';

interface JsonStyle {
  /** Writes other characters than ASCII as `\u0000`. */
  ascii: boolean;
  /** What a level is indented by; null for JSON on one line. */
  indent: string | null;
  separators: readonly [item: string, key: string];
  sortKeys: boolean;
}

/** JSON as Python's `json.dumps` writes it, which is the filter `tojson` of chat templates. */
export function toJson(value: Value, style: JsonStyle, level = 0): string {
  step();
  if (value === null || typeof value === 'boolean') return JSON.stringify(value);
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'number')
    return Number.isFinite(value)
      ? floatText(value)
      : Number.isNaN(value)
        ? 'NaN'
        : value > 0
          ? 'Infinity'
          : '-Infinity';
  if (typeof value === 'string') return jsonText(value, style);
  if (Array.isArray(value))
    return bracketed(
      '[]',
      value.map((item) => toJson(item, style, level + 1)),
      style,
      level,
    );
  if (value instanceof Map) {
    const entries = [...value];
    if (style.sortKeys) entries.sort(([one], [other]) => (one < other ? -1 : 1));
    const members = entries.map(
      ([key, item]) => jsonText(key, style) + style.separators[1] + toJson(item, style, level + 1),
    );
    return bracketed('{}', members, style, level);
  }
  throw new TemplateError(
    value instanceof Namespace || value !== undefined
      ? `a ${typeName(value)} cannot be written as JSON`
      : 'tojson: the value is undefined',
  );
}

function bracketed([open, close]: string, items: string[], style: JsonStyle, level: number): string {
  const { indent, separators } = style;
  const between = separators[0].length + (indent === null ? 0 : (level + 1) * indent.length + 1);
  spend(items.reduce((sum, item) => sum + item.length + between, 2 + (indent?.length ?? 0) * level));
  if (indent === null || items.length === 0) return open + items.join(separators[0]) + close;
  const line = `\n${indent.repeat(level)}`;
  return open + line + indent + items.join(separators[0] + line + indent) + line + close;
}

function jsonText(text: string, { ascii }: JsonStyle): string {
  spend(text.length);
  const json = JSON.stringify(text);
  if (!ascii) return json;
  return json.replace(/[\x7f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
