import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { RequestValidationError } from '../errors.ts';
import { readExample } from '../jobs/sft-job.ts';
import { Slices } from '../slices.ts';
import { byteLines } from '../store/byte-lines.ts';
import type { DataFiles } from '../store/files.ts';
import type { IncomingFile } from '../store/incoming-file.ts';
import type { Store, UploadRecord } from '../store/store.ts';

/** Most bytes of a line of training data. */
export const longestLine = 4 * 1024 ** 2;

/**
 * Keeps training data by its content, once every line of it has been checked: a job must not find a broken one after
 * an hour. Data that the entity has already is not kept twice; what only others have is checked and kept as if nobody
 * had, so that nothing tells that they do. Whoever gives the file discards it in the end.
 */
export async function keepTrainingData(
  { store, files }: { store: Store; files: DataFiles },
  file: IncomingFile,
  entity: string | null,
): Promise<UploadRecord> {
  const sha256 = await hashOf(file);
  const kept = await store.upload(sha256, entity);
  if (kept) return kept;
  const upload = { sha256, bytes: file.bytes, examples: await countExamples(file) };
  await files.keepUpload(sha256, file);
  await store.putUpload(upload, entity);
  return upload;
}

const piecesOf = (file: IncomingFile) => file.pieces({ start: 0, end: file.bytes });

async function hashOf(file: IncomingFile): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of piecesOf(file)) hash.update(piece);
  return hash.digest('hex');
}

async function countExamples(file: IncomingFile): Promise<number> {
  const slices = new Slices();
  const tooLong = (number: number) =>
    wrongLine(number, `has more than the ${longestLine} bytes that a line may have`);
  let examples = 0;
  for await (const { bytes, number } of byteLines(piecesOf(file), { longest: longestLine, tooLong })) {
    if (!isUtf8(bytes)) throw wrongLine(number, 'is no UTF-8 text; training data is JSON lines');
    const line = bytes.toString('utf8');
    if (slices.over) await slices.pause();
    if (line.trim() === '') continue;
    readExample({ line, number });
    examples++;
  }
  if (examples === 0)
    throw new RequestValidationError([
      { loc: ['body'], msg: 'there is no line of training data in it', type: 'value_error' },
    ]);
  return examples;
}

const wrongLine = (number: number, reason: string) =>
  new RequestValidationError([
    { loc: ['body', `line ${number}`], msg: `line ${number}: ${reason}`, type: 'value_error' },
  ]);
