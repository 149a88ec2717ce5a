import type { LanguageModelV4 } from '@ai-sdk/provider';
import type { Client } from '../client/index.ts';
import { formatModelName, parseModelName } from '../contract/index.ts';
import { type ModelEndpoint, openEndpoint } from '../endpoint/index.ts';
import { currentTrajectory } from '../trajectory/index.ts';
import { checkArgument, checkOptionNames, type OptionNames, objectOf } from '../util/option-names.ts';
import type { CallBudget } from './call-budget.ts';
import type { CompletionSource } from './completion-source.ts';
import { PolicyLanguageModel } from './language-model.ts';
import { type OutsideRollout, PolicyCaller, type SamplingOverride } from './policy-caller.ts';
import { recordCalls } from './record-calls.ts';
import type { RolloutModel } from './rollout-model.ts';

export interface ModelSettings extends SamplingOverride {
  /** Record calls in the rollout's trajectory. Default true; false for a judge or teacher on the same service. */
  record?: boolean;
  /** Send the sampled token ids with replies in prompts. Default true; false for services that refuse the field. */
  sendTokenIds?: boolean;
  /**
   * Ask for the tokens of replies as lists of ids, log-probabilities and texts, in place of an object a token: a fifth of
   * the memory. The service must have `return_token_logprobs` (`client.returnsTokenLists()`). Default false; `train` turns it on
   * where the service has it.
   */
  tokenLists?: boolean;
  /** Limits the calls in flight, shared with all other models that use it. Default: no limit. */
  budget?: CallBudget;
  /**
   * What happens to a call outside of any rollout: `answer` (the default), `warn`, an answer and one process warning
   * (`martingale_outside_rollout`), or `error`, a TrajectoryError. The handle passed to a rollout uses the rollout's
   * `onUnexpectedCall`, unless this is set.
   */
  outsideRollout?: OutsideRollout;
  /**
   * Deadline of one call in milliseconds, from getting its slot in the budget to the end of its answer, including the
   * client's retries. Then the call fails with code `model_call_timeout`. Default: only the client's deadlines apply.
   */
  callTimeoutMs?: number;
}

const settingsNames = {
  temperature: 'temperature',
  topP: 'topP',
  topK: 'topK',
  minP: 'minP',
  maxOutputTokens: 'count',
  record: true,
  sendTokenIds: true,
  tokenLists: true,
  budget: true,
  outsideRollout: true,
  callTimeoutMs: true,
} satisfies OptionNames<ModelSettings>;

export interface ModelHandleOptions {
  /** Optional with `completions`: the model can then be called, but not trained or looked up. */
  client?: Client | undefined;
  /** `entity/project/name`, `entity/project/name:stepN`, or the name of a base model. */
  name: string;
  /** The service's id of the model. Absent for base models, and for models that are only called. */
  id?: string | undefined;
  settings?: ModelSettings;
  /** Answers the chat requests. Default: the client. */
  completions?: CompletionSource | undefined;
}

const handleNames = {
  client: 'client',
  name: 'text',
  id: 'text',
  settings: objectOf(settingsNames),
  completions: true,
} satisfies OptionNames<ModelHandleOptions>;

/**
 * A model to call: a fixed checkpoint if its name is pinned to a step, otherwise the newest. Handles are immutable: `at`
 * and `with` return new ones.
 */
export class ModelHandle implements RolloutModel {
  readonly name: string;
  readonly id: string | undefined;
  readonly settings: ModelSettings;
  /** The model for the AI SDK: `new ToolLoopAgent({ model: model.languageModel, ... })`. */
  readonly languageModel: LanguageModelV4;
  readonly #client: Client | undefined;
  readonly #completions: CompletionSource | undefined;
  readonly #caller: PolicyCaller;

  /** @throws OptionError */
  constructor(options: ModelHandleOptions) {
    checkOptionNames('A model handle', options, handleNames);
    const { client, name, id, settings = {}, completions } = options;
    const {
      record = true,
      sendTokenIds = true,
      tokenLists = false,
      budget,
      callTimeoutMs,
      outsideRollout = 'answer',
      ...override
    } = settings;
    const parsed = parseModelName(name);
    this.#client = client;
    this.name = parsed ? formatModelName(parsed) : name;
    this.id = id;
    this.settings = settings;
    this.#completions = completions;
    this.#caller = new PolicyCaller({
      completions: completions ?? this.client.chat.completions,
      name: this.name,
      override,
      record,
      sendTokenIds,
      tokenLists,
      budget,
      callTimeoutMs,
      outsideRollout,
    });
    this.languageModel = new PolicyLanguageModel(this.#caller);
  }

  /** The client of the service. @throws TypeError for a handle without a client. */
  get client(): Client {
    if (this.#client) return this.#client;
    throw new TypeError(
      `"${this.name}" has no client: it answers from a record and cannot be trained. Pass ModelHandle a \`client\`.`,
    );
  }

  /** Answers chat requests instead of the client; undefined if the client answers. */
  get completions(): CompletionSource | undefined {
    return this.#completions;
  }

  /** Step of the pinned checkpoint; undefined for the newest checkpoint and for base models. */
  get step(): number | undefined {
    return parseModelName(this.name)?.step;
  }

  /**
   * Base URL and key of a local server that speaks Chat Completions, Responses and Anthropic's Messages, for agents that do
   * not use the AI SDK, in any language and process. The key identifies the current rollout's trajectory: every call with it is
   * recorded there, whatever model it names. The key expires with the rollout. Outside of a rollout nothing is recorded,
   * and the key lasts until `closeEndpoints()`.
   *
   *     const { baseUrl, apiKey } = await model.endpoint();
   *     const client = new OpenAI({ baseURL: baseUrl, apiKey }); // or Anthropic
   *
   * @throws TrajectoryError if the rollout has ended, and outside of a rollout if `outsideRollout` is `error`.
   */
  async endpoint(): Promise<ModelEndpoint> {
    if (!currentTrajectory()) this.#caller.checkOutside();
    return openEndpoint(this.#caller);
  }

  /** Returns the model pinned to a checkpoint. @throws TypeError for a base model, which has no checkpoints. */
  at(step: number): ModelHandle {
    const parsed = parseModelName(this.name);
    checkArgument('step', step, 'amount');
    if (!parsed) throw new TypeError(`"${this.name}" is a base model and has no step ${step} to pin.`);
    return this.#copy(formatModelName({ ...parsed, step }), this.settings);
  }

  /** Returns the model with settings that override what agents set. */
  with(settings: ModelSettings): ModelHandle {
    checkOptionNames('with() of a model', settings, settingsNames);
    return this.#copy(this.name, { ...this.settings, ...settings });
  }

  /** Returns the model with each call written to a file for `replayModel`; see `recordCalls`. */
  recordingTo(file: string): ModelHandle {
    const completions = this.#completions ?? this.client.chat.completions;
    return this.#copy(this.name, this.settings, recordCalls({ file, completions }));
  }

  #copy(name: string, settings: ModelSettings, completions = this.#completions): ModelHandle {
    return new ModelHandle({ client: this.#client, name, id: this.id, settings, completions });
  }
}

/** The handles of rollouts, made once per model: a handle costs more than the rest of a rollout's start. */
const rolloutHandles = {
  error: new WeakMap<ModelHandle, ModelHandle>(),
  warn: new WeakMap<ModelHandle, ModelHandle>(),
};

/**
 * The model as passed to a rollout: a call outside of any rollout is an error or a warning, like the rollout's other
 * unexpected calls.
 */
export function forRollout(model: RolloutModel, onUnexpectedCall: 'error' | 'warn'): RolloutModel {
  // The user's own setting wins, and a model that does not record cannot miss calls.
  if (!(model instanceof ModelHandle) || model.settings.outsideRollout || model.settings.record === false)
    return model;
  const handles = rolloutHandles[onUnexpectedCall];
  const handle = handles.get(model) ?? model.with({ outsideRollout: onUnexpectedCall });
  handles.set(model, handle);
  return handle;
}
