import type { ProviderV2, ProviderV3, ProviderV4 } from '@ai-sdk/provider';
import { customProvider } from 'ai';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { ModelError } from './model-error.ts';
import { policy } from './rollout-model.ts';

export interface DefaultProviderOptions {
  /** Ids that stand for the policy of the current rollout, as agents write them; `all`: every language model does. */
  models: readonly string[] | 'all';
  /** Has all else: other language models, and models for embeddings, images, speech and so on. Default: refused by name. */
  otherwise?: ProviderV4 | ProviderV3 | ProviderV2;
}

/**
 * Makes agents that name their model by a string run on `policy()`, unchanged. This is the AI SDK's default provider,
 * of the whole process: ask for it where nothing else names models by string, or give that as `otherwise`. Calls of
 * other models are never recorded.
 *
 *     const putBack = usePolicyAsDefaultProvider({ models: ['gpt-x'], otherwise: openai });
 *
 * @returns what puts back the default provider that was there before.
 * @throws ModelError of code `not_the_policy` later, from the AI SDK call that requests a model which no provider has.
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
      `The default provider was asked for the ${kind} "${id}", and is the policy's for ${named} only. Name that model ` +
        'in `models`, or pass the provider that has it as `otherwise`.',
    );
  };
  // Adapts what was written for an earlier version of the AI SDK.
  const others = otherwise && customProvider({ fallbackProvider: otherwise });
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
