import type { z } from 'zod';
import { defaultConcurrency, defaultGroupStrategy } from '../rollout/index.ts';
import { defaultJobTimeoutMs } from './follow-job.ts';
import { defaultLostJob } from './lost-job.ts';
import type { TrainSettings } from './train-options.ts';

/** What the options of `train` are without being given. Those that are not here have no value then. */
export const trainDefaults = {
  maxStaleness: 0,
  config: {},
  concurrency: defaultConcurrency,
  groupStrategy: defaultGroupStrategy,
  rolloutTimeoutMs: 600_000,
  scenarioTimeoutMs: 600_000,
  jobTimeoutMs: defaultJobTimeoutMs,
  lostJob: defaultLostJob,
  onUnexpectedCall: 'error',
  seed: 0,
  keepCheckpoints: 2,
  resume: false,
} as const satisfies Partial<TrainSettings<z.ZodType, unknown>>;
