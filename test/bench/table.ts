import { cpus } from 'node:os';

/** What a table of measurements must say about the machine. */
export const machine = `${cpus()[0]?.model ?? 'unknown processor'}, ${cpus().length} cores, Node ${process.version}`;

export const whole = (value: number) => Math.round(value).toLocaleString('en');

/** Prints a row of a Markdown table. */
export const row = (...cells: (string | number)[]) => console.log(`| ${cells.join(' | ')} |`);

export function head(...cells: string[]): void {
  row(...cells);
  row(...cells.map(() => '---'));
}
