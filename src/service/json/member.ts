const quote = 0x22;
const backslash = 0x5c;

/**
 * The text of a member of the object that JSON text holds, as it is written there; undefined where there is none. Of
 * several of one name it is the last, as with `JSON.parse`, which must have taken the text.
 */
export function memberSource(json: string, name: string): string | undefined {
  let found: string | undefined;
  let depth = 0;
  let key: string | null = null;
  let value = -1;
  const end = (at: number) => {
    if (value >= 0 && key === name) found = json.slice(value, at).trim();
    value = -1;
  };
  for (let at = 0; at < json.length; at++) {
    switch (json.charCodeAt(at)) {
      case quote: {
        const last = endOfString(json, at);
        if (depth === 1 && value < 0) key = JSON.parse(json.slice(at, last + 1));
        at = last;
        break;
      }
      case 0x5b:
      case 0x7b:
        depth++;
        break;
      case 0x5d:
      case 0x7d:
        if (depth-- === 1) end(at);
        break;
      case 0x3a:
        if (depth === 1) value = at + 1;
        break;
      case 0x2c:
        if (depth === 1) end(at);
    }
  }
  return found;
}

/** Where the quote stands that ends a string; the end of the text where none does. */
export function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (end > 0 && isEscaped(text, end)) end = text.indexOf('"', end + 1);
  return end < 0 ? text.length : end;
}

function isEscaped(text: string, at: number): boolean {
  let before = at - 1;
  while (text.charCodeAt(before) === backslash) before--;
  return (at - before) % 2 === 0;
}
