import type { LanguageModelV4 } from '@ai-sdk/provider';
import type { Client } from '../client/index.ts';
import { formatModelName, parseModelName } from '../contract/index.ts';

import type { CallBudget } from './call-budget.ts';
import type { CompletionSource } from './completion-source.ts';
import { PolicyLanguageModel } from './language-model.ts';
import { PolicyCaller } from './policy-caller.ts';
import type { SamplingOverride } from './sampling-override.ts';

export interface ModelSettings extends SamplingOverride {
  /** Record calls in the rollout's trajectory. Default true; false for a judge or teacher on the same service. */
  record?: boolean;
  /** Send sampled ids along with the messages they were sampled for. Default true; false for services that refuse the field. */
  sendTokenIds?: boolean;
  /** Bounds the calls in flight, together with all else that it is given to. Default: no bound. */
  budget?: CallBudget;
}

export interface ModelHandleOptions {
  client: Client;
  /** `entity/project/name`, `entity/project/name:stepN`, or the name of a base model. */
  name: string;
  /** The service's id of the model; absent for base models and where the model is only called. */
  id?: string | undefined;
  settings?: ModelSettings;
  /** What answers chat requests. Default: the client. */
  completions?: CompletionSource | undefined;
}

/**
 * A model to call: one checkpoint where its name is pinned to a step, else the newest. Handles are values: `at` and
 * `with` give new ones.
 */
export class ModelHandle {
  readonly client: Client;
  readonly name: string;
  readonly id: string | undefined;
  readonly settings: ModelSettings;
  /** The model for the AI SDK: `new ToolLoopAgent({ model: model.languageModel, ... })`. */
  readonly languageModel: LanguageModelV4;
  readonly #completions: CompletionSource | undefined;

  constructor({ client, name, id, settings = {}, completions }: ModelHandleOptions) {
    const { record = true, sendTokenIds = true, budget, ...override } = settings;
    const parsed = parseModelName(name);
    this.client = client;
    this.name = parsed ? formatModelName(parsed) : name;
    this.id = id;
    this.settings = settings;
    this.#completions = completions;
    const caller = new PolicyCaller({
      completions: completions ?? client.chat.completions,
      name: this.name,
      record,
      sendTokenIds,
      budget,
    });
    this.languageModel = new PolicyLanguageModel(caller, override);
  }

  /** The checkpoint this handle is pinned to; undefined where it means the newest, or a base model. */
  get step(): number | undefined {
    return parseModelName(this.name)?.step;
  }

  /** The same model pinned to a checkpoint. @throws TypeError for a base model, which has none. */
  at(step: number): ModelHandle {
    const parsed = parseModelName(this.name);
    if (!parsed) throw new TypeError(`"${this.name}" is a base model and has no step ${step} to pin.`);
    return this.#copy(formatModelName({ ...parsed, step }), this.settings);
  }

  /** The same model with settings that win over what agents ask for. */
  with(settings: ModelSettings): ModelHandle {
    return this.#copy(this.name, { ...this.settings, ...settings });
  }

  #copy(name: string, settings: ModelSettings): ModelHandle {
    return new ModelHandle({
      client: this.client,
      name,
      id: this.id,
      settings,
      completions: this.#completions,
    });
  }
}
