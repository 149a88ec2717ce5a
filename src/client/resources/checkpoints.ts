import {
  type Checkpoint,
  checkpointPageSchema,
  type DeleteCheckpointsRequest,
  type DeleteCheckpointsResponse,
  deleteCheckpointsResponseSchema,
} from '../../contract/index.ts';
import { type PageList, pageList } from '../page-list.ts';
import { parseAnswer } from '../parse.ts';
import { type CallOptions, path, type Requester, read, remove } from '../requester.ts';
import type { ListOptions } from './models.ts';

export interface ListCheckpointsOptions extends ListOptions {
  /** By step. Default `asc`; the newest first is `desc`. */
  order?: 'asc' | 'desc' | undefined;
}

/** The checkpoints of a model: its weights after each training job. Step 0 is the base model. */
export class Checkpoints {
  readonly #requester: Requester;

  constructor(requester: Requester) {
    this.#requester = requester;
  }

  list(modelId: string, options: ListCheckpointsOptions = {}): PageList<Checkpoint> {
    const { after, limit, order, ...call } = options;
    return pageList(after, async (cursor) => {
      const query = { after: cursor, limit, order };
      const answer = await read(this.#requester, path`/preview/models/${modelId}/checkpoints`, call, {
        query,
      });
      return { page: parseAnswer(checkpointPageSchema, answer), facts: answer.facts };
    });
  }

  /** Deletes the checkpoints of these steps; those that do not exist are named in the answer. */
  async delete(
    modelId: string,
    request: DeleteCheckpointsRequest,
    options: CallOptions = {},
  ): Promise<DeleteCheckpointsResponse> {
    const target = path`/preview/models/${modelId}/checkpoints`;
    return parseAnswer(
      deleteCheckpointsResponseSchema,
      await remove(this.#requester, target, options, request),
    );
  }
}
