import { bind, integerOf } from './arguments.ts';
import { methodsOfText } from './python-text.ts';
import { format } from './text-format.ts';
import { type Callable, equal, TemplateError, Tuple, typeName, type Value } from './value.ts';

/** A method by its arguments, in the order of its parameters. */
type Method<Owner> = (owner: Owner, ...args: Value[]) => Value;

const methodsOfList: Readonly<Record<string, Method<readonly Value[]>>> = {
  count: (list, value) => BigInt(list.filter((item) => equal(item, value)).length),
  index: (list, value, start = 0n, end = BigInt(list.length)) => {
    const [from, to] = [start, end].map(integerOf).map((at) => (at < 0 ? Math.max(at + list.length, 0) : at));
    const at = list.findIndex(
      (item, index) => index >= (from ?? 0) && index < (to ?? 0) && equal(item, value),
    );
    if (at < 0) throw new TemplateError('the value is not in the list');
    return BigInt(at);
  },
};

const methodsOfDict: Readonly<Record<string, Method<ReadonlyMap<string, Value>>>> = {
  copy: (dict) => new Map(dict),
  get: (dict, key, otherwise = null) =>
    typeof key === 'string' && dict.has(key) ? dict.get(key) : otherwise,
  items: (dict) => [...dict].map((entry) => Tuple.of(...entry)),
  keys: (dict) => [...dict.keys()],
  values: (dict) => [...dict.values()],
};

/** The parameters of the methods; '' takes no keyword. A method that is not here has none. */
const parameters: Readonly<Record<string, readonly string[]>> = {
  'list.count': [''],
  'list.index': ['', '', ''],
  'dict.get': ['', ''],
  'str.strip': [''],
  'str.lstrip': [''],
  'str.rstrip': [''],
  'str.split': ['sep', 'maxsplit'],
  'str.rsplit': ['sep', 'maxsplit'],
  'str.splitlines': ['keepends'],
  'str.partition': [''],
  'str.rpartition': [''],
  'str.startswith': ['', '', ''],
  'str.endswith': ['', '', ''],
  'str.removeprefix': [''],
  'str.removesuffix': [''],
  'str.replace': ['', '', 'count'],
  'str.find': ['', '', ''],
  'str.rfind': ['', '', ''],
  'str.index': ['', '', ''],
  'str.rindex': ['', '', ''],
  'str.count': ['', '', ''],
  'str.join': [''],
};

/** A method of Python's text, list, tuple or dict; undefined if there is none of this name. */
export function methodOf(owner: Value, name: string): Callable | undefined {
  if (typeof owner === 'string' && name === 'format')
    return (args, keywords) => format(owner, args, keywords);
  if (typeof owner === 'string') return bound(owner, methodsOfText, name);
  if (owner instanceof Map) return bound(owner, methodsOfDict, name);
  return Array.isArray(owner) ? bound(owner, methodsOfList, name) : undefined;
}

function bound<Owner extends Value>(
  owner: Owner,
  methods: Readonly<Record<string, Method<Owner>>>,
  name: string,
): Callable | undefined {
  const method = Object.hasOwn(methods, name) ? methods[name] : undefined;
  if (!method) return undefined;
  const type = Array.isArray(owner) ? 'list' : typeName(owner);
  const names = parameters[`${type}.${name}`] ?? [];
  return (args, keywords) => method(owner, ...bind(`${type}.${name}`, names, [args, keywords]));
}
