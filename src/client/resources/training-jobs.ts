import type { CreateSftTrainingJobRequest, CreateTrainingJobRequest } from '../../contract/index.ts';
import { configBody } from '../dialect.ts';
import { jsonInSlices } from '../json-slices.ts';
import { fetchedBy, type PageList, pageList, parserOf } from '../parse.ts';
import {
  createdJobSchema,
  type ReportedTrainingEvent,
  type ReportedTrainingJob,
  reportedJobSchema,
} from '../reported.ts';
import {
  type CallOptions,
  type IdempotentCallOptions,
  type ListOptions,
  path,
  post,
  type Requester,
  read,
} from '../requester.ts';
import { type FollowOptions, followEvents, parseEventPage } from './follow-events.ts';

/** Reinforcement-learning jobs; and, but for `create`, every job. */
export class TrainingJobs {
  readonly #requester: Requester;

  constructor(requester: Requester) {
    this.#requester = requester;
  }

  /** Asks for a job that takes the model from its newest checkpoint to the next. */
  async create(
    request: CreateTrainingJobRequest,
    options: IdempotentCallOptions = {},
  ): Promise<{ id: string }> {
    const { trajectory_groups, ...rest } = request;
    const config = configBody(this.#requester.dialect, rest.experimental_config);
    const head = { ...rest, experimental_config: config };
    const body = await jsonInSlices(head, 'trajectory_groups', trajectory_groups, options.signal);
    return post(this.#requester, '/preview/training-jobs', options, parserOf(createdJobSchema), { body });
  }

  get(jobId: string, options: CallOptions = {}): Promise<ReportedTrainingJob> {
    return read(this.#requester, path`/preview/training-jobs/${jobId}`, options, parserOf(reportedJobSchema));
  }

  /** Ends a job that has not ended; it leaves no checkpoint. An addition of ours. */
  cancel(jobId: string, options: IdempotentCallOptions = {}): Promise<ReportedTrainingJob> {
    const target = path`/preview/training-jobs/${jobId}/cancel`;
    const posted = { body: '{}', isRepeatable: true };
    return post(this.#requester, target, options, parserOf(reportedJobSchema), posted);
  }

  /** The events so far. Types that the contract does not have are passed over. */
  events(jobId: string, options: ListOptions = {}): PageList<ReportedTrainingEvent> {
    const { after, limit, ...call } = options;
    const target = path`/preview/training-jobs/${jobId}/events`;
    return pageList(after, (cursor) =>
      read(this.#requester, target, call, fetchedBy(parseEventPage), { query: { after: cursor, limit } }),
    );
  }

  /**
   * Every event once and in order, as they happen, until `training_ended` or `training_failed`, which are the last
   * it yields. Follows the event stream where the service has one and takes it up again after a cut; polls
   * elsewhere. It lasts as long as the job does, unless `signal` ends it, with its reason.
   *
   * @throws RequestError where the service cannot be reached any more, after the client's retries.
   */
  follow(jobId: string, options: FollowOptions = {}): AsyncIterableIterator<ReportedTrainingEvent> {
    return followEvents(this.#requester, jobId, options);
  }
}

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
