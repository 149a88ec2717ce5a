import type { CreateSftTrainingJobRequest } from '../../contract/index.ts';
import { parserOf } from '../parse.ts';
import { createdJobSchema } from '../reported.ts';
import { type IdempotentCallOptions, post, type Requester } from '../requester.ts';

/** Supervised training. Once made, a job is followed and cancelled through `trainingJobs`, like any other. */
export class SftTrainingJobs {
  readonly #requester: Requester;

  constructor(requester: Requester) {
    this.#requester = requester;
  }

  create(request: CreateSftTrainingJobRequest, options: IdempotentCallOptions = {}): Promise<{ id: string }> {
    const body = JSON.stringify(request);
    return post(this.#requester, '/preview/sft-training-jobs', options, parserOf(createdJobSchema), { body });
  }
}
