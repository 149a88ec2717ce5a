/** What JSON leaves as it is, and what a terminal may take for a command, a line's end or a turn of direction. */
const active = /[\p{Control}\p{Bidi_Control}\u2028\u2029]/gu;

/** An object as JSON in one line, its end included, that does nothing to the terminal it is shown on. */
export function jsonLine(value: object): string {
  const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return `${JSON.stringify(value).replace(active, escaped)}\n`;
}
