import type { LanguageModelV4 } from '@ai-sdk/provider';
import type { ModelEndpoint } from '../endpoint/index.ts';

/** What an agent in a rollout calls: the policy, or an external model that stands in its place. */
export interface RolloutModel {
  /** `entity/project/name:stepN` for a checkpoint, else the model's own name. */
  readonly name: string;
  /** Step of the checkpoint; undefined for base models and external models. */
  readonly step: number | undefined;
  /** For the AI SDK: `new ToolLoopAgent({ model: model.languageModel, ... })`. */
  readonly languageModel: LanguageModelV4;
  /** For everything else. Each call of it is recorded in the trajectory of the scope that asked for it. */
  endpoint(): Promise<ModelEndpoint>;
}
