import { join } from 'node:path';
import { textOf } from './documents.ts';

export interface Row {
  /** Code spans of the first cell, such as the fields that the row describes. */
  names: string[];
  /** The text of the other cells. */
  cells: string[];
  /** Files that the row links to, as paths in the repository. */
  files: string[];
}

/** The rows of all tables under each heading of a document, up to the next heading of any depth. */
export async function tablesOf(document: string): Promise<Map<string, Row[]>> {
  const text = await textOf(document);
  const tables = new Map<string, Row[]>();
  let rows: Row[] = [];
  for (const line of text.replace(/^```.*?^```$/gms, '').split('\n')) {
    const heading = /^#+ (.*)$/.exec(line)?.[1];
    if (heading !== undefined) {
      rows = [];
      tables.set(heading, rows);
    } else if (line.startsWith('| `')) rows.push(toRow(line, join(document, '..')));
  }
  return tables;
}

function toRow(line: string, folder: string): Row {
  const [first = '', ...cells] = line
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim());
  return {
    names: namesIn(first),
    cells,
    files: [...line.matchAll(/\]\(([^)#]+)\)/g)].map(([, path = '']) => join(folder, path)),
  };
}

/** The code spans of a text. */
export const namesIn = (text: string): string[] =>
  [...text.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);
