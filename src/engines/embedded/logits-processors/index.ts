export { loadProcessors, type ProcessorModules, processorModules } from './load-processors.ts';
export type {
  LogitsProcessor,
  LogitsProcessorFactories,
  LogitsProcessorFactory,
  LogitsProcessorInput,
  LogitsProcessorOptions,
} from './logits-processor.ts';
export { makeProcessors, type NamedProcessor, runProcessors } from './run-processors.ts';
