import type { LanguageModelV2, LanguageModelV3, LanguageModelV4 } from '@ai-sdk/provider';
import type { LanguageModel } from 'ai';
import type { ModelEndpoint } from '../endpoint/index.ts';
import { currentTrajectory } from '../trajectory/index.ts';
import { invalidOption } from '../util/option-error.ts';
import { checkOptionNames, type OptionNames, objectOf } from '../util/option-names.ts';
import { aiSdk } from './ai-sdk.ts';
import type { CallBudget } from './call-budget.ts';
import { ExternalLanguageModel } from './external-language-model.ts';
import { PolicyLanguageModel } from './language-model.ts';
import { ModelError } from './model-error.ts';
import type { SamplingOverride } from './policy-caller.ts';
import type { RolloutModel } from './rollout-model.ts';
import { policy } from './rollout-model.ts';

/** Settings of every call to an external model. They override the agent's settings. */
export type ExternalModelSettings = Omit<SamplingOverride, 'minP'>;

export interface ExternalModelOptions {
  /** Name in reports. Default: the model's id. */
  name?: string;
  /**
   * Address of the same model for agents that do not use the AI SDK. Calls to it are not recorded. Default: none, and
   * `endpoint()` throws.
   */
  endpoint?: ModelEndpoint;
  /** Limits the calls in flight, shared with all other models that use it. Default: no limit. */
  budget?: CallBudget;
  settings?: ExternalModelSettings;
}

const settingsNames = {
  temperature: 'temperature',
  topP: 'topP',
  topK: 'topK',
  maxOutputTokens: 'count',
} satisfies OptionNames<ExternalModelSettings>;

const externalModelNames = {
  name: 'text',
  endpoint: objectOf({ baseUrl: 'text', apiKey: 'text' } satisfies OptionNames<ModelEndpoint>),
  budget: true,
  settings: objectOf(settingsNames),
} satisfies OptionNames<ExternalModelOptions>;

/** Any AI SDK model in place of the policy. Created by `externalModel()`. */
export class ExternalModel implements RolloutModel {
  readonly name: string;
  /** An external model has no checkpoints. */
  readonly step = undefined;
  readonly settings: ExternalModelSettings;
  readonly languageModel: LanguageModelV4;
  readonly #model: LanguageModelV4;
  readonly #options: ExternalModelOptions;

  constructor(model: LanguageModelV4, options: ExternalModelOptions) {
    const { name = model.modelId, budget, settings = {} } = options;
    this.name = name;
    this.settings = settings;
    this.#model = model;
    this.#options = options;
    this.languageModel = new ExternalLanguageModel({ model, name, budget, override: settings });
  }

  /** Returns the model with settings that override what agents set. */
  with(settings: ExternalModelSettings): ExternalModel {
    checkOptionNames('with() of an external model', settings, settingsNames);
    return new ExternalModel(this.#model, { ...this.#options, settings: { ...this.settings, ...settings } });
  }

  /** @throws ModelError of code `external_model` if the model has no endpoint. */
  async endpoint(): Promise<ModelEndpoint> {
    const { endpoint } = this.#options;
    if (!endpoint)
      throw new ModelError(
        'external_model',
        `The agent requested the endpoint of the external model "${this.name}", which has none. Set one: ` +
          '`externalModel(model, { endpoint: { baseUrl, apiKey } })`.',
      );
    currentTrajectory()?.noteExternalModel(this.name);
    return endpoint;
  }
}

/**
 * Any AI SDK model in place of the policy: `runGroups` and `evaluate` run the same environment with it, and `policy()`
 * resolves to it. Its conversations are recorded as messages. Rewards, judges and reports can read them, but training
 * throws TrajectoryError, because the tokens are unknown.
 *
 * @param model A model of any provider, or its id if the AI SDK has a default provider.
 * @throws ModelError of code `external_model` for an id without a default provider, and for a model of the service: pass
 * its handle instead.
 */
export function externalModel(model: LanguageModel, options: ExternalModelOptions = {}): ExternalModel {
  checkOptionNames('externalModel()', options, externalModelNames);
  const resolved = typeof model === 'string' ? byId(model) : model;
  if (typeof resolved?.doGenerate !== 'function')
    throw invalidOption('invalid_option', 'model', model, 'Pass a model of the AI SDK.');
  if (resolved === policy() || resolved instanceof PolicyLanguageModel)
    throw new ModelError(
      'external_model',
      `"${resolved.modelId}" is a model of the service. Pass its handle instead of an external model, so that its tokens ` +
        'are recorded.',
    );
  return new ExternalModel(
    resolved.specificationVersion === 'v4'
      ? resolved
      : aiSdk().wrapLanguageModel({ model: resolved, middleware: [] }),
    options,
  );
}

function byId(id: string): LanguageModelV2 | LanguageModelV3 | LanguageModelV4 {
  const provider = globalThis.AI_SDK_DEFAULT_PROVIDER;
  if (provider) return provider.languageModel(id);
  throw new ModelError(
    'external_model',
    `The external model "${id}" is an id, and the AI SDK has no default provider. Pass the model itself, as in ` +
      '`externalModel(openai("..."))`, or set `globalThis.AI_SDK_DEFAULT_PROVIDER` first.',
  );
}
