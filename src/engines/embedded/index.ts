import '../../platform/check-node.ts';

export type { FetchProgress } from './checkpoint/fetch-checkpoint.ts';
export { createEmbeddedEngine, type EmbeddedEngineOptions } from './create-embedded-engine.ts';
export type {
  LogitsProcessor,
  LogitsProcessorFactory,
  LogitsProcessorInput,
  LogitsProcessorOptions,
} from './extensions/logits-processors.ts';
export type { CheckpointOptions } from './open-checkpoint.ts';
