import { createReadStream } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { MartingaleError } from '../../contract/index.ts';
import { isObject, jsonOf } from '../../util/json.ts';
import { byteLines } from '../../util/json-lines.ts';
import { isLfsPointer, lfsProblem } from '../../util/lfs-pointer.ts';

/** A JSON value of a file, and where it is. */
interface FoundValue {
  /** `undefined` where the text is not JSON. */
  value: unknown;
  where: string;
}

/**
 * The files of a source, sorted. For a file: itself. For a folder: all that end in .json, .jsonl or .ndjson, at any
 * depth. For the folder of a run or an evaluation: only the files with its groups.
 * @throws MartingaleError (`source_not_found`) if there are none.
 */
export async function filesOf(source: string): Promise<string[]> {
  const found = await stat(source).catch((cause: unknown) => {
    throw new MartingaleError('source_not_found', `${source} cannot be read.`, { cause });
  });
  if (!found.isDirectory()) return [source];
  const files = await filesIn(source);
  if (files.length > 0) return files;
  throw new MartingaleError(
    'source_not_found',
    `${source} has no files that end in .json, .jsonl or .ndjson.`,
  );
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = (await readdir(folder, { withFileTypes: true })).sort((a, b) => (a.name < b.name ? -1 : 1));
  const names = entries.map(({ name }) => name);
  if (names.includes('trajectories')) return filesIn(join(folder, 'trajectories'));
  if (names.includes('groups.jsonl')) return [join(folder, 'groups.jsonl')];
  const files: string[] = [];
  for (const entry of entries) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) files.push(...(await filesIn(path)));
    else if (/\.(json|jsonl|ndjson)$/.test(entry.name)) files.push(path);
  }
  return files;
}

/**
 * The values of a file: one JSON document, of a list each member; else each line.
 * @throws MartingaleError (`source_not_found`) if it is a pointer of Git LFS.
 */
export async function* valuesOf(file: string): AsyncGenerator<FoundValue, undefined> {
  if (!/\.(jsonl|ndjson)$/.test(file)) {
    const whole = jsonOf(await readFile(file, 'utf8'));
    if (Array.isArray(whole)) yield* whole.map((value, at) => ({ value, where: `${file}[${at}]` }));
    else if (isObject(whole)) yield { value: whole, where: file };
    if (whole !== undefined) return;
  }
  for await (const { bytes, number } of byteLines(createReadStream(file))) {
    const text = bytes.toString('utf8');
    if (number === 1 && isLfsPointer(bytes))
      throw new MartingaleError('source_not_found', `${file} ${lfsProblem}.`);
    if (text.trim() !== '') yield { value: jsonOf(text), where: `${file}:${number}` };
  }
}
