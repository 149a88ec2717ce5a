import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { RequestValidationError } from '../errors.ts';
import { readExample } from '../jobs/sft-job.ts';
import type { DataFiles } from '../store/files.ts';
import type { Store, UploadRecord } from '../store/store.ts';

/** Lines checked before the requests of others get their turn. */
const linesAtATime = 200;

/**
 * Keeps training data by its content, once every line of it has been checked: a job must not find a broken one after
 * an hour. Data that is there already is not kept twice.
 */
export async function keepTrainingData(
  { store, files }: { store: Store; files: DataFiles },
  text: string,
): Promise<UploadRecord> {
  const sha256 = createHash('sha256').update(text).digest('hex');
  const kept = await store.upload(sha256);
  if (kept) return kept;
  const upload = { sha256, bytes: Buffer.byteLength(text), examples: await countExamples(text) };
  await files.writeUpload(sha256, text);
  await store.putUpload(upload);
  return upload;
}

async function countExamples(text: string): Promise<number> {
  let examples = 0;
  let number = 0;
  for (const line of text.split(/\r?\n/)) {
    number++;
    if (line.trim() === '') continue;
    readExample({ line, number });
    if (++examples % linesAtATime === 0) await nextTurn();
  }
  if (examples === 0)
    throw new RequestValidationError([
      { loc: ['body'], msg: 'there is no line of training data in it', type: 'value_error' },
    ]);
  return examples;
}
