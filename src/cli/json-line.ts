import { terminalActive } from '../contract/index.ts';

/** An object as JSON in one line, its end included, that does nothing to the terminal it is shown on. */
export function jsonLine(value: object): string {
  const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return `${JSON.stringify(value).replace(terminalActive, escaped)}\n`;
}
