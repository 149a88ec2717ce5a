import { randomUUID } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import {
  type Checkpoint,
  type DeleteCheckpointsRequest,
  type DeleteCheckpointsResponse,
  deleteCheckpointsResponseSchema,
} from '../../contract/index.ts';
import type { Call, OpenAnswer } from '../call.ts';
import { BadResponseError, ConnectionError } from '../errors.ts';
import { fetchedBy, type PageList, pageList, parserOf } from '../parse.ts';
import { reportedCheckpointSchema, reportedPageSchema } from '../reported.ts';
import { type CallOptions, type ListOptions, path, type Requester, read, remove } from '../requester.ts';
import type { Repeat } from '../retry.ts';
import { excerpt } from '../status-error.ts';

/** A checkpoint on its way. */
export interface CheckpointFile {
  /** A name for it without any folder: the service's, or one made of the model's id and the step. */
  fileName: string;
  /** Its length; null where the service does not say. */
  bytes: number | null;
  /** To be read once. Throws where the download breaks or what came is not as long as it should be. */
  stream: AsyncIterable<Uint8Array>;
}

export async function openCheckpoint(
  requester: Requester,
  modelId: string,
  step: number,
  options: CallOptions,
  repeat: Repeat = 'harmless',
): Promise<CheckpointFile> {
  const call: Call = {
    method: 'GET',
    path: path`/preview/models/${modelId}/checkpoints/${String(step)}/download`,
    headers: { accept: 'application/octet-stream, */*;q=0.5' },
    repeat,
    signal: options.signal,
    timeoutMs: options.timeoutMs ?? requester.timeoutMs,
    timeoutOption: 'timeoutMs',
    idle: true,
  };
  const answer = await requester.transport.open(call, isFile);
  const fileName = fileNameOf(answer.contentDisposition) ?? `${modelId}-step${step}.safetensors`;
  return { fileName, bytes: answer.contentLength, stream: measured(answer) };
}

export function saveCheckpoint(
  requester: Requester,
  modelId: string,
  step: number,
  file: string,
  options: CallOptions,
): Promise<{ file: string; bytes: number }> {
  const opened = () => openCheckpoint(requester, modelId, step, options, 'never');
  return requester.transport.repeated('harmless', options, async () => ({
    file,
    bytes: await writeWhole(file, opened),
  }));
}

/** Weights are neither text nor nothing: such an answer is a proxy's page, or an error that calls itself a success. */
async function isFile({ facts, contentType, contentLength, beginning }: OpenAnswer): Promise<void> {
  if (contentLength !== 0 && !/^(text\/|application\/json)/.test(contentType)) return;
  throw new BadResponseError({ ...facts, detail: `not a file: ${excerpt(await beginning())}` });
}

/** A connection may end cleanly and early where its length is not said on it. */
async function* measured({ facts, body, contentLength }: OpenAnswer): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.byteLength;
    yield chunk;
  }
  if (contentLength === null || bytes === contentLength) return;
  throw new ConnectionError({ ...facts, detail: `${bytes} of ${contentLength} bytes came` }, 'cut');
}

/** The last part of the name that a service gives: what it says must not reach into other folders. */
function fileNameOf(contentDisposition: string | null): string | null {
  const [, quoted, plain] = /filename="([^"]+)"|filename=([^";\s]+)/i.exec(contentDisposition ?? '') ?? [];
  const name = (quoted ?? plain ?? '').split(/[/\\]/).at(-1) ?? '';
  return name === '' || name.startsWith('.') ? null : name;
}

async function writeWhole(file: string, opened: () => Promise<CheckpointFile>): Promise<number> {
  const partial = `${file}.${randomUUID()}.partial`;
  let bytes = 0;
  try {
    const handle = await open(partial, 'wx');
    try {
      const { stream } = await opened();
      for await (const chunk of stream) {
        await handle.writeFile(chunk);
        bytes += chunk.byteLength;
      }
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(partial, file);
    return bytes;
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
}

export interface ListCheckpointsOptions extends ListOptions {
  /** By step. Default `asc`; the newest first is `desc`. */
  order?: 'asc' | 'desc' | undefined;
}

const checkpointPageSchema = reportedPageSchema(reportedCheckpointSchema);

/** The checkpoints of a model: its weights after each training job. Step 0 is the base model. */
export class Checkpoints {
  readonly #requester: Requester;

  constructor(requester: Requester) {
    this.#requester = requester;
  }

  list(modelId: string, options: ListCheckpointsOptions = {}): PageList<Checkpoint> {
    const { after, limit, order, ...call } = options;
    const target = path`/preview/models/${modelId}/checkpoints`;
    const parse = fetchedBy(parserOf(checkpointPageSchema));
    return pageList(after, (cursor) =>
      read(this.#requester, target, call, parse, { query: { after: cursor, limit, order } }),
    );
  }

  /** Deletes the checkpoints of these steps; those that do not exist are named in the answer. */
  delete(
    modelId: string,
    request: DeleteCheckpointsRequest,
    options: CallOptions = {},
  ): Promise<DeleteCheckpointsResponse> {
    const target = path`/preview/models/${modelId}/checkpoints`;
    return remove(this.#requester, target, options, parserOf(deleteCheckpointsResponseSchema), request);
  }

  /**
   * Opens a checkpoint as a file that other tools read. Resolves when the service has begun to send it; read `stream`
   * to its end, or leave its loop: both free the connection. `timeoutMs` is how long nothing may come.
   * An addition of ours: other services answer 404 or 405.
   *
   * @throws NotFoundError where the model has no checkpoint of that step. The stream throws what ends it early.
   */
  download(modelId: string, step: number, options: CallOptions = {}): Promise<CheckpointFile> {
    return openCheckpoint(this.#requester, modelId, step, options);
  }

  /**
   * Downloads a checkpoint into a file, which is there whole or not at all: it is written under another name beside
   * it, flushed to the disk, and renamed, over what had the name before. A download that breaks begins again.
   *
   * @param file Path of the file to make, in a folder that exists.
   * @returns What was written: its path as given, and its length in bytes.
   */
  downloadTo(
    modelId: string,
    step: number,
    file: string,
    options: CallOptions = {},
  ): Promise<{ file: string; bytes: number }> {
    return saveCheckpoint(this.#requester, modelId, step, file, options);
  }
}
