import { ModelHandle } from './model-handle.ts';
import type { RolloutModel } from './rollout-model.ts';

const known = new WeakMap<ModelHandle, Map<'error' | 'warn', ModelHandle>>();

/**
 * The model as a rollout is given it: a call of it outside of any rollout is an error or a warning, as the rollout's
 * own unexpected calls are. The same handle for all rollouts of a model, so that it warns once.
 */
export function forRollout(model: RolloutModel, onUnexpectedCall: 'error' | 'warn'): RolloutModel {
  // What the user said stands; a model that records nothing has no calls to miss.
  if (!(model instanceof ModelHandle) || model.settings.outsideRollout || model.settings.record === false)
    return model;
  const handles = known.get(model) ?? new Map<'error' | 'warn', ModelHandle>();
  known.set(model, handles);
  const handle = handles.get(onUnexpectedCall) ?? model.with({ outsideRollout: onUnexpectedCall });
  handles.set(onUnexpectedCall, handle);
  return handle;
}
