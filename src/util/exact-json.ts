/** A number of JSON by its source text, since a JavaScript number has 17 digits at most, and no `1.0`. */
export class JsonNumber {
  readonly source: string;

  constructor(source: string) {
    this.source = source;
  }
}

/** A value of JSON with nothing lost: the digits of numbers, and the order of members. Of duplicates the last counts. */
export type ExactJson = null | boolean | string | JsonNumber | ExactJson[] | Map<string, ExactJson>;

/** Deepest nesting that is read, so that what goes through a value may call itself. */
const maxDepth = 1000;

/** A token; of a text only the quote at its start. */
const token = /[\s,:]*(["[\]{}]|[^\s,:[\]{}"]+)/y;

/** Where the text of JSON that begins at a quote ends. A pattern would need a stack as long as the text. */
export function textEnd(json: string, start: number): number {
  let end = start;
  let slashes: number;
  do {
    end = json.indexOf('"', end + 1);
    slashes = 0;
    while (json[end - 1 - slashes] === '\\') slashes++;
  } while (slashes % 2 === 1);
  return end + 1;
}

/** Parses JSON. @throws SyntaxError for text that is not JSON, or that is nested more than 1,000 deep. */
export function parseExactJson(text: string): ExactJson {
  // Afterwards the text is known to be JSON, so its tokens need no further checks.
  JSON.parse(text);
  const pattern = new RegExp(token);
  const next = () => {
    const found = pattern.exec(text)?.[1] ?? '';
    if (found !== '"') return found;
    const start = pattern.lastIndex - 1;
    pattern.lastIndex = textEnd(text, start);
    return text.slice(start, pattern.lastIndex);
  };
  const read = (first: string, depth: number): ExactJson => {
    if (depth > maxDepth) throw new SyntaxError(`The JSON is nested more than ${maxDepth} deep`);
    if (first === '[') {
      const list: ExactJson[] = [];
      for (let at = next(); at !== ']'; at = next()) list.push(read(at, depth + 1));
      return list;
    }
    if (first === '{') {
      const members = new Map<string, ExactJson>();
      for (let at = next(); at !== '}'; at = next()) members.set(JSON.parse(at), read(next(), depth + 1));
      return members;
    }
    return /^[-\d]/.test(first) ? new JsonNumber(first) : JSON.parse(first);
  };
  return read(next(), 0);
}

/** Parses as `parseExactJson` does. Undefined for text that is not JSON. */
export function exactJsonOf(text: string): ExactJson | undefined {
  try {
    return parseExactJson(text);
  } catch {
    return undefined;
  }
}

/** The exact JSON that each list and object was parsed from. */
const remembered = new WeakMap<object, ExactJson>();

/** Makes `exactText` write a parsed value, and those inside it, as `exact` has them. They must not change afterwards. */
export function rememberExact(parsed: unknown, exact: ExactJson | undefined): void {
  if (typeof parsed !== 'object' || parsed === null || exact === undefined) return;
  remembered.set(parsed, exact);
  for (const [key, item] of Object.entries(parsed))
    if (exact instanceof Map) rememberExact(item, exact.get(key));
    else if (Array.isArray(exact)) rememberExact(item, exact[Number(key)]);
}

/** Like `JSON.stringify`, for values that `parseExactJson` has read or that are remembered. */
export function exactText(value: unknown): string {
  if (value instanceof JsonNumber) return value.source;
  const exact = typeof value === 'object' && value !== null ? remembered.get(value) : undefined;
  if (exact !== undefined) return exactText(exact);
  if (Array.isArray(value)) return `[${value.map(exactText).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const entries: [unknown, unknown][] = value instanceof Map ? [...value] : Object.entries(value);
  const members = entries
    .filter(([, item]) => item !== undefined)
    .map(([key, item]) => `${JSON.stringify(key)}:${exactText(item)}`);
  return `{${members.join(',')}}`;
}
