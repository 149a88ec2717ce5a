import { AsyncLocalStorage } from 'node:async_hooks';
import type { LanguageModelV4 } from '@ai-sdk/provider';
import type { ModelEndpoint } from '../endpoint/index.ts';
import { ModelError } from './model-error.ts';
import { providerName } from './prompt-messages.ts';

/** The model that an agent calls in a rollout: the policy, or an external model in its place. */
export interface RolloutModel {
  /** `entity/project/name:stepN` for a checkpoint, otherwise the model's own name. */
  readonly name: string;
  /** Step of the checkpoint; undefined for base models and external models. */
  readonly step: number | undefined;
  /** For the AI SDK: `new ToolLoopAgent({ model: model.languageModel, ... })`. */
  readonly languageModel: LanguageModelV4;
  /** For all other agents. A policy's calls are recorded in the trajectory of the scope that calls this function. */
  endpoint(): Promise<ModelEndpoint>;
}

const scope = new AsyncLocalStorage<RolloutModel>();

/** Runs `body` with `policy()` resolving to `model`. */
export function runWithModel<Result>(model: RolloutModel, body: () => Result): Result {
  return scope.run(model, body);
}

/**
 * The model of the current rollout, for agents that are built once per program:
 *
 *     const agent = new ToolLoopAgent({ model: policy(), tools });
 *
 * The model is looked up at each call. Calls outside of a rollout throw ModelError of code `no_current_model`.
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
        'elsewhere pass the agent `model.languageModel`.',
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
