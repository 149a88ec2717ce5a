import type { LanguageModelV2, LanguageModelV3, LanguageModelV4 } from '@ai-sdk/provider';
import { type LanguageModel, wrapLanguageModel } from 'ai';
import { currentTrajectory } from '../trajectory/index.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import { BaselineLanguageModel } from './baseline-language-model.ts';
import type { CallBudget } from './call-budget.ts';
import { policy } from './current-model.ts';
import { BaselineError } from './errors.ts';
import { PolicyLanguageModel } from './language-model.ts';
import type { ModelEndpoint, RolloutModel } from './rollout-model.ts';
import type { SamplingOverride } from './sampling-override.ts';

/** Settings that hold for every call of a baseline, whatever the agent asks for. */
export type BaselineSettings = Omit<SamplingOverride, 'minP'>;

export interface BaselineOptions {
  /** What reports call it. Default: the model's id. */
  name?: string;
  /**
   * Where agents that are no AI SDK ones reach the same model: any address that speaks what they speak. What is said
   * there is not recorded. Default: none, and `endpoint()` throws.
   */
  endpoint?: ModelEndpoint;
  /** Bounds the calls in flight, together with all else that it is given to. Default: no bound. */
  budget?: CallBudget;
  settings?: BaselineSettings;
}

const settingsNames = {
  temperature: true,
  topP: true,
  topK: true,
  maxOutputTokens: true,
} satisfies OptionNames<BaselineSettings>;

const baselineNames = {
  name: true,
  endpoint: { baseUrl: true, apiKey: true } satisfies OptionNames<ModelEndpoint>,
  budget: true,
  settings: settingsNames,
} satisfies OptionNames<BaselineOptions>;

/** Any AI SDK model where a rollout expects the policy: made by `baseline()`. */
export class BaselineModel implements RolloutModel {
  readonly name: string;
  /** A baseline has no checkpoints. */
  readonly step = undefined;
  readonly settings: BaselineSettings;
  readonly languageModel: LanguageModelV4;
  readonly #model: LanguageModelV4;
  readonly #options: BaselineOptions;

  constructor(model: LanguageModelV4, options: BaselineOptions) {
    const { name = model.modelId, budget, settings = {} } = options;
    this.name = name;
    this.settings = settings;
    this.#model = model;
    this.#options = options;
    this.languageModel = new BaselineLanguageModel({ model, name, budget, override: settings });
  }

  /** The same model with settings that win over what agents ask for. */
  with(settings: BaselineSettings): BaselineModel {
    checkOptionNames('with() of a baseline', settings, settingsNames);
    return new BaselineModel(this.#model, { ...this.#options, settings: { ...this.settings, ...settings } });
  }

  /** @throws BaselineError where the baseline was given no endpoint. */
  async endpoint(): Promise<ModelEndpoint> {
    const { endpoint } = this.#options;
    if (!endpoint)
      throw new BaselineError(
        `The agent asks for the endpoint of the baseline "${this.name}", which has none. Give it: ` +
          '`baseline(model, { endpoint: { baseUrl, apiKey } })`.',
      );
    currentTrajectory()?.leaveToBaseline(this.name);
    return endpoint;
  }
}

/**
 * Any AI SDK model in place of the policy, so that `runGroups` and `evaluate` run the same environment with it, and
 * `policy()` stands for it. Its conversations are recorded as messages: rewards, judges and reports read them, and a
 * training job refuses them (NotTrainableError), as nobody knows the tokens.
 *
 * @param model A model of any provider; its id as a string where the AI SDK has a default provider.
 * @throws BaselineError for a string without a default provider, and for a model of the service, which needs no
 * `baseline`: give its handle.
 */
export function baseline(model: LanguageModel, options: BaselineOptions = {}): BaselineModel {
  checkOptionNames('baseline()', options, baselineNames);
  const resolved = typeof model === 'string' ? byId(model) : model;
  if (resolved === policy() || resolved instanceof PolicyLanguageModel)
    throw new BaselineError(
      `"${resolved.modelId}" is a model of the service: give its handle where you give a baseline, so that its tokens ` +
        'are recorded.',
    );
  // Adapts what was written for an earlier version of the AI SDK.
  return new BaselineModel(wrapLanguageModel({ model: resolved, middleware: [] }), options);
}

function byId(id: string): LanguageModelV2 | LanguageModelV3 | LanguageModelV4 {
  const provider = globalThis.AI_SDK_DEFAULT_PROVIDER;
  if (provider) return provider.languageModel(id);
  throw new BaselineError(
    `The baseline "${id}" is only an id, and the AI SDK has no default provider. Give the model itself, as in ` +
      '`baseline(openai("..."))`, or set `globalThis.AI_SDK_DEFAULT_PROVIDER` first.',
  );
}
