import type { LanguageModelV4 } from '@ai-sdk/provider';
import { runInTrajectory, type Trajectory } from '../trajectory/index.ts';
import type { RolloutModel } from './rollout-model.ts';

/** The model with its calls recorded in this trajectory, whatever the scope that makes them. */
export function recordedIn(trajectory: Trajectory, model: RolloutModel): RolloutModel {
  const { languageModel: inner } = model;
  const languageModel: LanguageModelV4 = {
    specificationVersion: inner.specificationVersion,
    provider: inner.provider,
    modelId: inner.modelId,
    supportedUrls: inner.supportedUrls,
    doGenerate: (options) => runInTrajectory(trajectory, () => inner.doGenerate(options)),
    doStream: (options) => runInTrajectory(trajectory, () => inner.doStream(options)),
  };
  return {
    name: model.name,
    step: model.step,
    languageModel,
    endpoint: () => runInTrajectory(trajectory, () => model.endpoint()),
  };
}
