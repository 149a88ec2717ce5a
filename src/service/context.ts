import type { Engine } from '../engines/engine.ts';
import type { Admission } from './admission/admission.ts';
import type { BodyLimits } from './bodies/bodies.ts';
import type { Connections } from './http/exchange.ts';
import type { Idempotency } from './idempotency.ts';
import type { Constraints } from './inference/constraints.ts';
import type { BaseModelTools, ModelResolver } from './inference/resolve-model.ts';
import type { GroupPacker } from './jobs/group-packer.ts';
import type { JobEvents } from './jobs/job-events.ts';
import type { JobQueue } from './jobs/job-queue.ts';
import type { RecentPayloads } from './jobs/packed-trajectories.ts';
import type { RecentTokens } from './jobs/trained-tokens.ts';
import type { DataFiles } from './store/files.ts';
import type { KeyStore } from './store/key-store.ts';
import type { Store } from './store/store.ts';
import type { ServiceLog } from './telemetry.ts';
import type { TrainingDataSources } from './training-data/sources.ts';

/** What route handlers work with. */
export interface ServiceContext {
  engine: Engine;
  store: Store;
  files: DataFiles;
  events: JobEvents;
  queue: JobQueue;
  groupPacker: GroupPacker;
  recentPayloads: RecentPayloads;
  recentTokens: RecentTokens;
  models: ModelResolver;
  constraints: Constraints;
  tools: (baseModel: string) => BaseModelTools;
  idempotency: Idempotency;
  /** The service's own key, valid as long as it runs. */
  apiKey: string;
  /** Keys that can be created and revoked while the service runs. */
  keys: KeyStore;
  /** Sources that training data may be fetched from. */
  trainingData: TrainingDataSources;
  bodyLimits: BodyLimits;
  admission: Admission;
  /** Open connections to this service. */
  connections: Connections;
  /** Entity of models created without one. */
  defaultEntity: string;
  /** Whether chat requests may have a `priority` other than 0. */
  priorityScheduling: boolean;
  log: ServiceLog;
  /** Aborts when the service closes: it ends streams and waits. */
  closing: AbortSignal;
}
