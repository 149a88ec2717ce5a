import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { ModelHandle, type ModelSettings } from './model-handle.ts';
import { type ReplayedCalls, replayCalls } from './replay-calls.ts';

export interface ReplayModelOptions {
  /** Written by `model.recordingTo(file)`. */
  file: string;
  /** Which model of the record it is. Needed where calls to several were recorded; default: the only one. */
  name?: string;
  /** As those of the recorded handle: what they change in requests is part of what is looked up. */
  settings?: ModelSettings;
}

const replayModelNames = {
  file: true,
  name: true,
  settings: true,
} satisfies OptionNames<ReplayModelOptions>;

export interface ReplayedModel {
  /** Has no client: for rollouts and evaluations, not for training. */
  model: ModelHandle;
  /** Ask it for `unused()` at the end of a test. */
  replay: ReplayedCalls;
}

/**
 * A model that answers from recorded calls: environments and rewards can be tested without a model, a key or a
 * network.
 *
 *     const { model, replay } = await replayModel({ file: 'test/calls/sums.jsonl' });
 *     const { groups } = await runGroups({ environment, scenarios, rolloutsPerGroup: 4, model, seed: 1 });
 *
 * @throws RecordedCallsError for a file that is not one; TypeError where the model's name does not follow from it.
 */
export async function replayModel(options: ReplayModelOptions): Promise<ReplayedModel> {
  checkOptionNames('replayModel()', options, replayModelNames);
  const { file, name, settings } = options;
  const replay = await replayCalls({ file });
  const [only, ...others] = replay.models;
  const chosen = name ?? (others.length === 0 ? only : undefined);
  if (chosen === undefined || !replay.models.includes(chosen)) {
    const known = replay.models.map((model) => `"${model}"`).join(', ') || 'none';
    throw new TypeError(
      `${name === undefined ? 'No one model' : `"${name}"`} is in ${file}: name one of ${known}.`,
    );
  }
  return { model: new ModelHandle({ name: chosen, completions: replay, settings }), replay };
}
