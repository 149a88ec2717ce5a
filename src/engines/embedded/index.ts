import '../../platform/check-node.ts';

export { createEmbeddedEngine, type EmbeddedEngineOptions } from './embedded-engine.ts';
export type {
  LogitsProcessor,
  LogitsProcessorFactory,
  LogitsProcessorInput,
  LogitsProcessorOptions,
} from './logits-processors/index.ts';
