import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { root } from '../support/programs.ts';

/** README and the pages of docs/, as paths in the repository. */
export const documents: readonly string[] = [
  'README.md',
  ...(await readdir(join(root, 'docs'))).filter((file) => file.endsWith('.md')).map((file) => `docs/${file}`),
];

export const textOf = (document: string): Promise<string> => readFile(join(root, document), 'utf8');

export interface Snippet {
  document: string;
  language: string;
  /** The text after the language, such as "run" or a file name. */
  note: string;
  code: string;
}

/** The fenced blocks of a document, in order. */
export async function snippetsOf(document: string): Promise<Snippet[]> {
  const text = await textOf(document);
  return [...text.matchAll(/^```(\w+)(?: (\S+))?\n(.*?)^```$/gms)].map(
    ([, language = '', note = '', code = '']) => ({ document, language, note, code }),
  );
}

/** The TypeScript of all documents. */
export async function typeScriptSnippets(): Promise<Snippet[]> {
  const all = await Promise.all(documents.map(snippetsOf));
  return all.flat().filter(({ language }) => language === 'ts');
}

/** The anchor of a heading. */
export const toAnchor = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');

/** The headings of a document, ignoring fenced blocks. */
export const headingsOf = (text: string): string[] =>
  [...text.replace(/^```.*?^```$/gms, '').matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => heading);
