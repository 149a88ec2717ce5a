export { policy, runWithModel } from './current-model.ts';
export {
  BaseModelMismatchError,
  IncompleteCompletionError,
  NoCurrentModelError,
  UnsupportedByModelError,
} from './errors.ts';
export { ModelHandle, type ModelHandleOptions, type ModelSettings } from './model-handle.ts';
export { newestStep, type OpenModelOptions, openModel, requireModelId } from './open-model.ts';
export type { SamplingOverride } from './sampling-override.ts';
