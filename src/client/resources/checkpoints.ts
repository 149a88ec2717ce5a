import {
  type Checkpoint,
  type DeleteCheckpointsRequest,
  type DeleteCheckpointsResponse,
  deleteCheckpointsResponseSchema,
} from '../../contract/index.ts';
import { fetchedBy, type PageList, pageList } from '../page-list.ts';
import { parserOf } from '../parse.ts';
import { reportedCheckpointSchema, reportedPageSchema } from '../reported.ts';
import { type CallOptions, type ListOptions, path, type Requester, read, remove } from '../requester.ts';
import { type CheckpointFile, openCheckpoint, saveCheckpoint } from './checkpoint-file.ts';

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
