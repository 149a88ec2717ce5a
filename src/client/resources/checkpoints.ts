import { randomUUID } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import {
  type Checkpoint,
  type DeleteCheckpointsRequest,
  type DeleteCheckpointsResponse,
  deleteCheckpointsResponseSchema,
} from '../../contract/index.ts';
import type { OpenAnswer } from '../call.ts';
import { RequestError } from '../errors.ts';
import { type PageList, parserOf } from '../parse.ts';
import { reportedCheckpointSchema, reportedPageSchema } from '../reported.ts';
import { type CallOptions, type OrderedListOptions, path, Resource } from '../requester.ts';
import type { Repeat } from '../retry.ts';
import { excerpt } from '../status-error.ts';

/** A checkpoint during its download. */
export interface CheckpointFile {
  /** File name without a folder: the service's, or one derived from the model's id and the step. */
  fileName: string;
  /** Length in bytes; null if the service does not report it. */
  bytes: number | null;
  /** Can be read once. Throws if the download breaks or has the wrong length. */
  stream: AsyncIterable<Uint8Array>;
}

/** Rejects an empty or text answer: it is a proxy's page or an error with status 2xx. */
async function isFile({ facts, contentType, contentLength, beginning }: OpenAnswer): Promise<void> {
  if (contentLength !== 0 && !/^(text\/|application\/json)/.test(contentType)) return;
  throw new RequestError('bad_response', { ...facts, detail: `not a file: ${excerpt(await beginning())}` });
}

/** Checks the length of the body, because a connection may end early without an error. */
async function* measured({ facts, body, contentLength }: OpenAnswer): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.byteLength;
    yield chunk;
  }
  if (contentLength === null || bytes === contentLength) return;
  const detail = `received ${bytes} of ${contentLength} bytes`;
  throw new RequestError('connection_failed', { ...facts, detail });
}

/** The last segment of the service's file name, so that the name cannot point to another folder. */
function fileNameOf(contentDisposition: string | null): string | null {
  const [, quoted, plain] = /filename="([^"]+)"|filename=([^";\s]+)/i.exec(contentDisposition ?? '') ?? [];
  const name = (quoted ?? plain ?? '').split(/[/\\]/).at(-1) ?? '';
  return name === '' || name.startsWith('.') ? null : name;
}

async function writeAtomically(file: string, opened: () => Promise<CheckpointFile>): Promise<number> {
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

const checkpointPageSchema = reportedPageSchema(reportedCheckpointSchema);

/** Checkpoints of a model: its weights after each training job. Step 0 is the base model. */
export class Checkpoints extends Resource {
  list(modelId: string, { order, ...options }: OrderedListOptions = {}): PageList<Checkpoint> {
    const target = path`/preview/models/${modelId}/checkpoints`;
    return this.requester.pages(target, options, parserOf(checkpointPageSchema), order);
  }

  /** Deletes the checkpoints of these steps. The answer names steps that do not exist. */
  delete(
    modelId: string,
    request: DeleteCheckpointsRequest,
    options: CallOptions = {},
  ): Promise<DeleteCheckpointsResponse> {
    const target = path`/preview/models/${modelId}/checkpoints`;
    return this.requester.remove(target, options, parserOf(deleteCheckpointsResponseSchema), request);
  }

  /**
   * Downloads a checkpoint as a file for other tools. Resolves when the service begins to send it. Read `stream` to its
   * end or break out of the loop; both free the connection. `timeoutMs` is the maximum silence. An extension: other
   * services answer 404 or 405.
   *
   * @throws RequestError of code `not_found` if the model has no checkpoint of this step. The stream throws if it ends
   * early.
   */
  download(modelId: string, step: number, options: CallOptions = {}): Promise<CheckpointFile> {
    return this.#open(modelId, step, options, 'harmless');
  }

  /**
   * Downloads a checkpoint to a file, completely or not at all: it is written next to the target under a temporary name,
   * synced to disk and then renamed, replacing an existing file. A broken download starts again.
   *
   * @param file Path of the file to write, in an existing folder.
   * @returns The path as passed and the length in bytes.
   */
  downloadTo(
    modelId: string,
    step: number,
    file: string,
    options: CallOptions = {},
  ): Promise<{ file: string; bytes: number }> {
    const open = () => this.#open(modelId, step, options, 'never');
    return this.requester.transport.repeated('harmless', options, async () => ({
      file,
      bytes: await writeAtomically(file, open),
    }));
  }

  async #open(modelId: string, step: number, options: CallOptions, repeat: Repeat): Promise<CheckpointFile> {
    const call = this.requester.callOf(options, {
      method: 'GET',
      path: path`/preview/models/${modelId}/checkpoints/${String(step)}/download`,
      headers: { accept: 'application/octet-stream, */*;q=0.5' },
      repeat,
      idle: true,
    });
    const answer = await this.requester.transport.open(call, isFile);
    const fileName = fileNameOf(answer.contentDisposition) ?? `${modelId}-step${step}.safetensors`;
    return { fileName, bytes: answer.contentLength, stream: measured(answer) };
  }
}
