import { spend } from './budget.ts';
import { isNumeric, type Keywords, TemplateError, Tuple, toText, typeName, type Value } from './value.ts';

/** Python's `text.format(...)`, with fields that are a position, a name or nothing. */
export function format(text: string, args: readonly Value[], keywords: Keywords): string {
  let next = 0;
  return text.replace(/\{\{|\}\}|\{([^{}]*)\}|[{}]/g, (found, field?: string) => {
    if (found === '{{' || found === '}}') return found.slice(1);
    if (field === undefined || !/^\w*$/.test(field))
      throw new TemplateError(`format writes fields such as {}, {0} and {name} here, not ${found}`);
    const name = field || String(next++);
    const isPosition = /^\d+$/.test(name);
    if (isPosition ? Number(name) >= args.length : !keywords.has(name))
      throw new TemplateError(`format has no argument ${name}`);
    const shown = toText(isPosition ? args[Number(name)] : keywords.get(name));
    spend(shown.length);
    return shown;
  });
}

/** Flags and widths are a part of the last group, so that an error can name the whole field. */
const percentFields = /%(?:\(([^()]*)\))?([-#0 +.\d]*.?)/gsu;

/**
 * Python's `text % values`, with fields that are a text or an integer, and may have a name: `%s`, `%d` and `%(name)s`. A
 * tuple has a value for each field; a dict is looked into by name.
 */
export function percentFormat(text: string, values: Value): string {
  const fields = values instanceof Tuple ? values : [values];
  let next = 0;
  const formatted = text.replace(percentFields, (found, name: string | undefined, kind: string) => {
    if (found === '%%') return '%';
    if (!['s', 'd', 'i'].includes(kind))
      throw new TemplateError(`% writes fields such as %s, %d and %(name)s here, not ${found}`);
    if (name === undefined && next >= fields.length) throw new TemplateError(`% has no value for ${found}`);
    const value = name === undefined ? fields[next] : valueNamed(name, values);
    next = name === undefined ? next + 1 : fields.length;
    const shown = kind === 's' ? toText(value) : wholeText(value);
    spend(shown.length);
    return shown;
  });
  const mayHaveMore = values instanceof Map || (Array.isArray(values) && !(values instanceof Tuple));
  if (next < fields.length && !mayHaveMore)
    throw new TemplateError(`% has ${fields.length} values, and the text ${next} fields`);
  return formatted;
}

function valueNamed(name: string, values: Value): Value {
  if (values instanceof Map && values.has(name)) return values.get(name);
  throw new TemplateError(`% has no value named ${name}`);
}

function wholeText(value: Value): string {
  if (!isNumeric(value) || (typeof value === 'number' && !Number.isFinite(value)))
    throw new TemplateError(`%d writes a finite number, not ${typeName(value)}`);
  return BigInt(typeof value === 'number' ? Math.trunc(value) : value).toString();
}
