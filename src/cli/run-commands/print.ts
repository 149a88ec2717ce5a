import { jsonLine, printableLines } from '../../contract/index.ts';

export interface JsonFlag {
  json?: boolean;
}

export interface RunFlags extends JsonFlag {
  in: string;
}

/** Names of folders, runs and models may be anybody's: none can control the terminal. */
export const print = (lines: readonly string[]): void =>
  void process.stdout.write(`${printableLines(lines.join('\n'))}\n`);
export const printJson = (value: object): void => void process.stdout.write(jsonLine(value));
