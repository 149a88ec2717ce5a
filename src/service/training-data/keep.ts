import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { byteLines } from '../../util/json-lines.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { RequestValidationError } from '../errors.ts';
import { readExample } from '../jobs/sft-job.ts';
import type { DataFiles } from '../store/files.ts';
import type { IncomingFile } from '../store/incoming-file.ts';
import type { Store, UploadRecord } from '../store/store.ts';

/** Longest line of training data, in bytes. */
const maxLineBytes = 4 * 1024 ** 2;

type Context = { store: Store; files: DataFiles };

/** Training data whose lines have all been checked. */
export interface CheckedData {
  upload: UploadRecord;
  /** Whether it is stored already. */
  isKept: boolean;
}

/**
 * Checks every line of training data, so that a job does not find a broken one after an hour. Data that
 * this entity has stored before is not checked again. Data that only other entities have stored is checked
 * as if it were new, so that the time taken does not reveal them.
 */
export async function checkTrainingData(
  { store }: Pick<Context, 'store'>,
  file: IncomingFile,
  entity: string | null,
): Promise<CheckedData> {
  const sha256 = await hashOf(file);
  const upload = await store.useUpload(sha256, entity);
  if (upload) return { upload, isKept: true };
  return { upload: { sha256, bytes: file.bytes, examples: await countExamples(file) }, isKept: false };
}

/** Stores checked data under its hash, once. The caller discards the file. */
export async function keepTrainingData(
  service: Context,
  file: IncomingFile,
  { data: { upload, isKept }, entity }: { data: CheckedData; entity: string | null },
): Promise<UploadRecord> {
  if (!isKept) await service.files.exclusively(upload.sha256, () => keep(service, file, { upload, entity }));
  return upload;
}

/** Stores the file, then its record. If the record cannot be stored, the file is removed. */
async function keep(
  { store, files }: Context,
  file: IncomingFile,
  { upload, entity }: { upload: UploadRecord; entity: string | null },
): Promise<void> {
  const { sha256 } = upload;
  try {
    await files.keepUpload(sha256, file);
    await store.putUpload(upload, entity);
  } catch (error) {
    // If this lookup or removal fails too, the next start removes the file.
    const isKept = await store.hasUpload(sha256).catch(() => true);
    if (!isKept) await files.removeUpload(sha256).catch(() => {});
    throw error;
  }
}

async function hashOf(file: IncomingFile): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of file.pieces()) hash.update(piece);
  return hash.digest('hex');
}

async function countExamples(file: IncomingFile): Promise<number> {
  const slices = new TimeSlices();
  const tooLong = (number: number) =>
    wrongLine(number, `exceeds the limit of ${maxLineBytes} bytes per line`);
  let examples = 0;
  for await (const { bytes, number } of byteLines(file.pieces(), { maxBytes: maxLineBytes, tooLong })) {
    if (!isUtf8(bytes)) throw wrongLine(number, 'is not UTF-8 text');
    const line = bytes.toString('utf8');
    if (line.trim() === '') continue;
    await readExample({ line, number }, slices);
    examples++;
  }
  if (examples === 0)
    throw new RequestValidationError([
      { loc: ['body'], msg: 'the training data is empty', type: 'value_error', input: null },
    ]);
  return examples;
}

const wrongLine = (number: number, reason: string) =>
  new RequestValidationError([
    { loc: ['body', `line ${number}`], msg: `line ${number}: ${reason}`, type: 'value_error', input: null },
  ]);
