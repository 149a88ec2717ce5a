import { jsonLine } from '../../contract/index.ts';

export interface JsonFlag {
  json?: boolean;
}

export interface RunFlags extends JsonFlag {
  in: string;
}

export const print = (lines: readonly string[]): void => void process.stdout.write(`${lines.join('\n')}\n`);
export const printJson = (value: object): void => void process.stdout.write(jsonLine(value));
