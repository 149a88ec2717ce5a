import type { LanguageModelV2, LanguageModelV3, LanguageModelV4 } from '@ai-sdk/provider';
import { type LanguageModel, wrapLanguageModel } from 'ai';
import type { ModelEndpoint } from '../endpoint/index.ts';
import { currentTrajectory } from '../trajectory/index.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import type { CallBudget } from './call-budget.ts';
import { ExternalLanguageModel } from './external-language-model.ts';
import { PolicyLanguageModel } from './language-model.ts';
import { ModelError } from './model-error.ts';
import type { SamplingOverride } from './policy-caller.ts';
import type { RolloutModel } from './rollout-model.ts';
import { policy } from './rollout-model.ts';

/** Settings that hold for every call of a externalModel, whatever the agent asks for. */
export type ExternalModelSettings = Omit<SamplingOverride, 'minP'>;

export interface ExternalModelOptions {
  /** What reports call it. Default: the model's id. */
  name?: string;
  /**
   * Where agents that are no AI SDK ones reach the same model: any address that speaks what they speak. What is said
   * there is not recorded. Default: none, and `endpoint()` throws.
   */
  endpoint?: ModelEndpoint;
  /** Bounds the calls in flight, together with all else that it is given to. Default: no bound. */
  budget?: CallBudget;
  settings?: ExternalModelSettings;
}

const settingsNames = {
  temperature: true,
  topP: true,
  topK: true,
  maxOutputTokens: true,
} satisfies OptionNames<ExternalModelSettings>;

const externalModelNames = {
  name: true,
  endpoint: { baseUrl: true, apiKey: true } satisfies OptionNames<ModelEndpoint>,
  budget: true,
  settings: settingsNames,
} satisfies OptionNames<ExternalModelOptions>;

/** Any AI SDK model where a rollout expects the policy: made by `externalModel()`. */
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

  /** The same model with settings that win over what agents ask for. */
  with(settings: ExternalModelSettings): ExternalModel {
    checkOptionNames('with() of an external model', settings, settingsNames);
    return new ExternalModel(this.#model, { ...this.#options, settings: { ...this.settings, ...settings } });
  }

  /** @throws ModelError where the external model was given no endpoint. */
  async endpoint(): Promise<ModelEndpoint> {
    const { endpoint } = this.#options;
    if (!endpoint)
      throw new ModelError(
        'external_model',
        `The agent asks for the endpoint of the external model "${this.name}", which has none. Give it: ` +
          '`externalModel(model, { endpoint: { baseUrl, apiKey } })`.',
      );
    currentTrajectory()?.noteExternalModel(this.name);
    return endpoint;
  }
}

/**
 * Any AI SDK model in place of the policy, so that `runGroups` and `evaluate` run the same environment with it, and
 * `policy()` stands for it. Its conversations are recorded as messages: rewards, judges and reports read them, and a
 * training job refuses them (TrajectoryError), as nobody knows the tokens.
 *
 * @param model A model of any provider; its id as a string where the AI SDK has a default provider.
 * @throws ModelError of code `external_model` for a string without a default provider, and for a model of the service, which needs no
 * `external model`: give its handle.
 */
export function externalModel(model: LanguageModel, options: ExternalModelOptions = {}): ExternalModel {
  checkOptionNames('externalModel()', options, externalModelNames);
  const resolved = typeof model === 'string' ? byId(model) : model;
  if (resolved === policy() || resolved instanceof PolicyLanguageModel)
    throw new ModelError(
      'external_model',
      `"${resolved.modelId}" is a model of the service: give its handle where you give a externalModel, so that its tokens ` +
        'are recorded.',
    );
  // Adapts what was written for an earlier version of the AI SDK.
  return new ExternalModel(wrapLanguageModel({ model: resolved, middleware: [] }), options);
}

function byId(id: string): LanguageModelV2 | LanguageModelV3 | LanguageModelV4 {
  const provider = globalThis.AI_SDK_DEFAULT_PROVIDER;
  if (provider) return provider.languageModel(id);
  throw new ModelError(
    'external_model',
    `The external model "${id}" is only an id, and the AI SDK has no default provider. Give the model itself, as in ` +
      '`externalModel(openai("..."))`, or set `globalThis.AI_SDK_DEFAULT_PROVIDER` first.',
  );
}
