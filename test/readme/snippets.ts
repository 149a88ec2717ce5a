import { readFile } from 'node:fs/promises';

export interface Snippet {
  language: string;
  /** What stands behind the language, such as "run". */
  note: string;
  code: string;
}

/** The fenced blocks of a document of the repository, in order. */
export async function snippetsOf(document: string): Promise<Snippet[]> {
  const text = await readFile(new URL(`../../${document}`, import.meta.url), 'utf8');
  return [...text.matchAll(/^```(\w+)(?: (\S+))?\n(.*?)^```$/gms)].map(
    ([, language = '', note = '', code = '']) => ({
      language,
      note,
      code,
    }),
  );
}
