/** Characters that a terminal may take for a command, a line's end or a turn of direction. */
export const terminalActive = /[\p{Control}\p{Bidi_Control}\u2028\u2029]/gu;

const [esc, bell, csi, end, osc] = ['\\u001b', '\\u0007', '\\u009b', '\\u009c', '\\u009d'];

/*
 * What a terminal takes out of a text: a command with its numbers, and a title or link up to its end (ECMA-48). None
 * can hold the beginning of another, so that a text of nothing but beginnings is read once and not once for each.
 */
const sequences = new RegExp(
  [
    `(?:${esc}\\[|${csi})[0-?]*[ -/]*[@-~]`,
    `(?:${esc}\\]|${osc})[^${bell}${esc}${csi}${end}${osc}]*(?:${bell}|${esc}\\\\|${end})`,
    `${esc}[ -/]*[0-Z\\\\^-~]`,
  ].join('|'),
  'gu',
);

const activeRun = new RegExp(`${terminalActive.source}+`, 'gu');

/** What another machine, a model or a user wrote, as one line that does nothing to the terminal it is shown on. */
export function printable(text: string): string {
  return text.replace(sequences, '').replace(activeRun, ' ');
}

/** The same for a text of several lines, which stay. */
export function printableLines(text: string): string {
  return text
    .split('\n')
    .map((line) => printable(line.replace(/\t/g, '  ')))
    .join('\n');
}

/** An object as JSON in one line, its end included, that does nothing to the terminal it is shown on. */
export function jsonLine(value: object): string {
  const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return `${JSON.stringify(value).replace(terminalActive, escaped)}\n`;
}
