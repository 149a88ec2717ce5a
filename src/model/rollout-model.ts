import { AsyncLocalStorage } from 'node:async_hooks';
import type { LanguageModelV4 } from '@ai-sdk/provider';
import type { ModelEndpoint } from '../endpoint/index.ts';
import { ModelError } from './model-error.ts';
import { providerName } from './prompt-messages.ts';

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

const scope = new AsyncLocalStorage<RolloutModel>();

/** Runs `body` with `model` as what `policy()` stands for. */
export function runWithModel<Result>(model: RolloutModel, body: () => Result): Result {
  return scope.run(model, body);
}

/**
 * The model of the current rollout, for agents that are built once for a whole program:
 *
 *     const agent = new ToolLoopAgent({ model: policy(), tools });
 *
 * Which model that is, is looked up at each call. Calls outside of a rollout throw ModelError of code `no_current_model`.
 */
export function policy(): LanguageModelV4 {
  return currentPolicy;
}

const current = (): LanguageModelV4 => {
  const model = scope.getStore();
  if (!model)
    throw new ModelError(
      'no_current_model',
      'An agent built on `policy()` was run outside of a rollout. `policy()` is the model of the current rollout; ' +
        'elsewhere give the agent `model.languageModel`.',
    );
  return model.languageModel;
};

const currentPolicy: LanguageModelV4 = {
  specificationVersion: 'v4',
  provider: providerName,
  modelId: 'policy',
  supportedUrls: {},
  doGenerate: async (options) => current().doGenerate(options),
  doStream: async (options) => current().doStream(options),
};
