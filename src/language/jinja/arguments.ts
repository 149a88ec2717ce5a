import { isNumeric, type Keywords, TemplateError, typeName, type Value } from './value.ts';

/**
 * The arguments in the order of the parameters, as Python binds them; undefined stands for one that is not given. A
 * parameter without a name takes no keyword.
 *
 * @throws TemplateError on an argument that no parameter takes
 */
export function bind(
  what: string,
  parameters: readonly string[],
  [args, keywords]: readonly [readonly Value[], Keywords],
): Value[] {
  if (args.length > parameters.length)
    throw new TemplateError(`${what} takes at most ${parameters.length} arguments, not ${args.length}`);
  const values = [...args];
  for (const [name, value] of keywords) {
    const at = name === '' ? -1 : parameters.indexOf(name);
    if (at < 0) throw new TemplateError(`${what} has no argument ${name}`);
    if (at < args.length) throw new TemplateError(`${what} is given its argument ${name} twice`);
    values[at] = value;
  }
  return values;
}

export function textOf(value: Value): string {
  if (typeof value === 'string') return value;
  throw new TemplateError(`a text is needed here, not ${typeName(value)}`);
}

export function integerOf(value: Value): number {
  if (isNumeric(value) && typeof value !== 'number') return Number(value);
  throw new TemplateError(`an integer is needed here, not ${typeName(value)}`);
}
