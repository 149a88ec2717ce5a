import { AsyncLocalStorage } from 'node:async_hooks';
import type { LanguageModelV4 } from '@ai-sdk/provider';
import { NoCurrentModelError } from './errors.ts';
import { providerName } from './prompt-messages.ts';
import type { RolloutModel } from './rollout-model.ts';

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
 * Which model that is, is looked up at each call. Calls outside of a rollout throw NoCurrentModelError.
 */
export function policy(): LanguageModelV4 {
  return currentPolicy;
}

const current = (): LanguageModelV4 => {
  const model = scope.getStore();
  if (!model) throw new NoCurrentModelError();
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
