import type { ProviderV2, ProviderV3, ProviderV4 } from '@ai-sdk/provider';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { aiSdk } from './ai-sdk.ts';
import { ModelError } from './model-error.ts';
import { policy } from './rollout-model.ts';

export interface DefaultProviderOptions {
  /** Model ids that resolve to the policy of the current rollout, as agents write them; `all`: every language model. */
  models: readonly string[] | 'all';
  /** Provider of all other models: language, embedding, image, speech and so on. Default: they are refused. */
  otherwise?: ProviderV4 | ProviderV3 | ProviderV2;
}

/**
 * Runs agents that name their model by a string on `policy()`, unchanged. It sets the AI SDK's default provider for the
 * whole process: use it only if no other code names models by string, or pass the provider of those models as
 * `otherwise`. Calls to other models are never recorded.
 *
 *     const putBack = usePolicyAsDefaultProvider({ models: ['gpt-x'], otherwise: openai });
 *
 * A later AI SDK call that requests a model which no provider has throws ModelError of code `not_the_policy`.
 *
 * @returns A function that restores the previous default provider.
 * @throws OptionError for an unknown option.
 */
export function usePolicyAsDefaultProvider(options: DefaultProviderOptions): () => void {
  checkOptionNames('usePolicyAsDefaultProvider()', options, {
    models: true,
    otherwise: true,
  } satisfies OptionNames<DefaultProviderOptions>);
  const before = globalThis.AI_SDK_DEFAULT_PROVIDER;
  globalThis.AI_SDK_DEFAULT_PROVIDER = policyProvider(options);
  return () => {
    globalThis.AI_SDK_DEFAULT_PROVIDER = before;
  };
}

function policyProvider({ models, otherwise }: DefaultProviderOptions): ProviderV4 {
  const named =
    models === 'all' ? 'all language models' : models.map((id) => `"${id}"`).join(', ') || 'no model';
  const refuse = (kind: string) => (id: string) => {
    throw new ModelError(
      'not_the_policy',
      `The default provider has no ${kind} "${id}"; it provides the policy for ${named} only. Name that model ` +
        'in `models`, or pass the provider that has it as `otherwise`.',
    );
  };
  // Adapts providers of earlier AI SDK versions.
  const others = otherwise && aiSdk().customProvider({ fallbackProvider: otherwise });
  const isPolicy = (id: string) => models === 'all' || models.includes(id);
  return {
    ...refusals(refuse),
    ...others,
    languageModel: (id) =>
      isPolicy(id) ? policy() : (others ?? { languageModel: refuse('language model') }).languageModel(id),
  };
}

const refusals = (refuse: (kind: string) => (id: string) => never) => ({
  specificationVersion: 'v4' as const,
  embeddingModel: refuse('embedding model'),
  imageModel: refuse('image model'),
  transcriptionModel: refuse('transcription model'),
  speechModel: refuse('speech model'),
  rerankingModel: refuse('reranking model'),
  videoModel: refuse('video model'),
  decisionModel: refuse('decision model'),
});
