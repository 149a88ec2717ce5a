import { MartingaleError } from '../contract/index.ts';

/**
 * - `unsupported_by_model`: the service has no equivalent of a prompt part or setting.
 * - `incomplete_completion`: a completion has no choice, or its stream ended early.
 * - `stream_left`: the agent stopped reading the stream of a reply before its end.
 * - `model_call_timeout`: a call was not answered within `callTimeoutMs`, retries included.
 * - `model_exists`: a model with this name exists, and `ifExists` does not allow it.
 * - `base_model_mismatch`: the model exists and was created from another base model.
 * - `no_current_model`: an agent called `policy()` outside of a rollout.
 * - `not_the_policy`: the default provider does not have the requested model.
 * - `external_model`: an external model cannot be created from the value, or has no endpoint.
 */
export type ModelErrorCode =
  | 'unsupported_by_model'
  | 'incomplete_completion'
  | 'stream_left'
  | 'model_call_timeout'
  | 'model_exists'
  | 'base_model_mismatch'
  | 'no_current_model'
  | 'not_the_policy'
  | 'external_model';

/** A model cannot be opened or called as requested, or did not answer. */
export class ModelError extends MartingaleError<ModelErrorCode> {}

export function unsupportedByModel(feature: string, remedy: string): ModelError {
  return new ModelError('unsupported_by_model', `The model does not take ${feature}. ${remedy}`);
}

export function incompleteCompletion(model: string, what: string): ModelError {
  return new ModelError('incomplete_completion', `"${model}" answered ${what}. The call may be repeated.`);
}
