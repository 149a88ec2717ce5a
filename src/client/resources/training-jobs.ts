import {
  type CreateSftTrainingJobRequest,
  type CreateTrainingJobRequest,
  type TrajectoryTokens,
  trajectoryTokensSchema,
} from '../../contract/index.ts';
import { jsonInSlices } from '../json-slices.ts';
import { configBody } from '../options.ts';
import { type PageList, parserOf } from '../parse.ts';
import {
  createdJobSchema,
  type ReportedTrainingEvent,
  type ReportedTrainingJob,
  reportedJobSchema,
  reportedPageSchema,
} from '../reported.ts';
import {
  type CallOptions,
  type IdempotentCallOptions,
  type ListOptions,
  type OrderedListOptions,
  path,
  Resource,
} from '../requester.ts';
import { type FollowOptions, followEvents, parseEventPage } from './follow-events.ts';

const jobPageSchema = reportedPageSchema(reportedJobSchema);
const tokenPageSchema = reportedPageSchema(trajectoryTokensSchema);

/** Reinforcement-learning jobs. All methods except `create` also take supervised jobs. */
export class TrainingJobs extends Resource {
  /** Creates a job that trains the model from its newest checkpoint to the next. */
  async create(
    request: CreateTrainingJobRequest,
    options: IdempotentCallOptions = {},
  ): Promise<{ id: string }> {
    const { trajectory_groups, ...rest } = request;
    const config = configBody(this.requester.dialect, rest.experimental_config);
    const whole = { ...rest, experimental_config: config, trajectory_groups };
    const body = await jsonInSlices(whole, options.signal);
    return this.requester.post('/preview/training-jobs', options, parserOf(createdJobSchema), { body });
  }

  get(jobId: string, options: CallOptions = {}): Promise<ReportedTrainingJob> {
    return this.requester.read(path`/preview/training-jobs/${jobId}`, options, parserOf(reportedJobSchema));
  }

  /** The jobs of a model, of either kind. An extension: other services answer 404 or 405. */
  list(modelId: string, { order, ...options }: OrderedListOptions = {}): PageList<ReportedTrainingJob> {
    return this.requester.pages(
      path`/preview/models/${modelId}/training-jobs`,
      options,
      parserOf(jobPageSchema),
      order,
    );
  }

  /**
   * What a reinforcement-learning job found of each sampled token, by trajectory. An extension: other services answer
   * 404 or 405, and so does ours when it no longer knows them.
   */
  tokens(jobId: string, options: ListOptions = {}): PageList<TrajectoryTokens> {
    return this.requester.pages(
      path`/preview/training-jobs/${jobId}/tokens`,
      options,
      parserOf(tokenPageSchema),
    );
  }

  /** Cancels a running job, which then leaves no checkpoint. An extension: other services may not have it. */
  cancel(jobId: string, options: IdempotentCallOptions = {}): Promise<ReportedTrainingJob> {
    const target = path`/preview/training-jobs/${jobId}/cancel`;
    const posted = { body: '{}', isRepeatable: true };
    return this.requester.post(target, options, parserOf(reportedJobSchema), posted);
  }

  /** The events so far. Events of unknown types are dropped. */
  events(jobId: string, options: ListOptions = {}): PageList<ReportedTrainingEvent> {
    return this.requester.pages(path`/preview/training-jobs/${jobId}/events`, options, parseEventPage);
  }

  /**
   * Yields every event once, in order, as it happens. The last one is `training_ended` or `training_failed`. Follows the
   * service's event stream and reopens it after a cut, or polls if there is no stream. Lasts as long as the job, unless
   * `signal` aborts it, which rejects with the signal's reason.
   *
   * @throws RequestError if the service stays unreachable after the client's retries.
   */
  follow(jobId: string, options: FollowOptions = {}): AsyncIterableIterator<ReportedTrainingEvent> {
    return followEvents(this.requester, jobId, options);
  }
}

/** Supervised training jobs. Use `trainingJobs` to follow or cancel them. */
export class SftTrainingJobs extends Resource {
  create(request: CreateSftTrainingJobRequest, options: IdempotentCallOptions = {}): Promise<{ id: string }> {
    const body = JSON.stringify(request);
    return this.requester.post('/preview/sft-training-jobs', options, parserOf(createdJobSchema), { body });
  }
}
