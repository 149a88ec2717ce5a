import type { LanguageModelV4 } from '@ai-sdk/provider';
import type { Client } from '../client/index.ts';
import { formatModelName, parseModelName } from '../contract/index.ts';
import { type ModelEndpoint, openEndpoint } from '../endpoint/index.ts';
import { currentTrajectory } from '../trajectory/index.ts';
import { checkOptionNames, type OptionNames } from '../util/option-names.ts';
import type { CallBudget } from './call-budget.ts';
import type { CompletionSource } from './completion-source.ts';
import { PolicyLanguageModel } from './language-model.ts';
import { OutsideCalls, type OutsideRollout } from './outside-rollout.ts';
import { PolicyCaller, type SamplingOverride } from './policy-caller.ts';
import { recordCalls } from './record-calls.ts';
import type { RolloutModel } from './rollout-model.ts';

export interface ModelSettings extends SamplingOverride {
  /** Record calls in the rollout's trajectory. Default true; false for a judge or teacher on the same service. */
  record?: boolean;
  /** Send sampled ids along with the messages they were sampled for. Default true; false for services that refuse the field. */
  sendTokenIds?: boolean;
  /** Bounds the calls in flight, together with all else that it is given to. Default: no bound. */
  budget?: CallBudget;
  /**
   * What a call is met with that no rollout holds: an answer (the default), an answer and one warning
   * (`MARTINGALE_OUTSIDE_ROLLOUT`), or TrajectoryError. The handle that a rollout is given has the rollout's
   * `onUnexpectedCall` here, unless you have said otherwise.
   */
  outsideRollout?: OutsideRollout;
  /**
   * Deadline of one call in milliseconds, from having its place in the budget to the end of its answer, the client's
   * repeats included. Beyond it the call fails with code `model_call_timeout`. Default: the client's deadlines alone.
   */
  callTimeoutMs?: number;
}

const settingsNames = {
  temperature: true,
  topP: true,
  topK: true,
  minP: true,
  maxOutputTokens: true,
  record: true,
  sendTokenIds: true,
  budget: true,
  outsideRollout: true,
  callTimeoutMs: true,
} satisfies OptionNames<ModelSettings>;

export interface ModelHandleOptions {
  /** May be left out with `completions`: the model can then be called, and neither trained nor looked up. */
  client?: Client | undefined;
  /** `entity/project/name`, `entity/project/name:stepN`, or the name of a base model. */
  name: string;
  /** The service's id of the model; absent for base models and where the model is only called. */
  id?: string | undefined;
  settings?: ModelSettings;
  /** What answers chat requests. Default: the client. */
  completions?: CompletionSource | undefined;
}

const handleNames = {
  client: true,
  name: true,
  id: true,
  settings: settingsNames,
  completions: true,
} satisfies OptionNames<ModelHandleOptions>;

/**
 * A model to call: one checkpoint where its name is pinned to a step, else the newest. Handles are values: `at` and
 * `with` give new ones.
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
  readonly #outside: OutsideCalls;

  /** @throws OptionError */
  constructor(options: ModelHandleOptions) {
    checkOptionNames('A model handle', options, handleNames);
    const { client, name, id, settings = {}, completions } = options;
    const {
      record = true,
      sendTokenIds = true,
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
    this.#outside = new OutsideCalls(record ? outsideRollout : 'answer');
    this.#caller = new PolicyCaller({
      completions: completions ?? this.client.chat.completions,
      name: this.name,
      override,
      record,
      sendTokenIds,
      budget,
      callTimeoutMs,
      outside: this.#outside,
    });
    this.languageModel = new PolicyLanguageModel(this.#caller);
  }

  /** The service over HTTP. @throws TypeError for a handle that was made without one. */
  get client(): Client {
    if (this.#client) return this.#client;
    throw new TypeError(
      `"${this.name}" has no client: it answers from a record and cannot be trained. Give ModelHandle a \`client\`.`,
    );
  }

  /** What answers in place of the client, where anything does. */
  get completions(): CompletionSource | undefined {
    return this.#completions;
  }

  /** The checkpoint this handle is pinned to; undefined where it means the newest, or a base model. */
  get step(): number | undefined {
    return parseModelName(this.name)?.step;
  }

  /**
   * For agents that are no AI SDK ones, in any language and process: the base URL and key of a server of this process
   * that speaks Chat Completions and Responses. The key is the trajectory of the rollout that asks: every call made
   * with it is recorded there, under whatever model name, and it ends with the rollout. Outside of a rollout nothing
   * is recorded, and the key lasts until `closeEndpoints()`.
   *
   *     const { baseUrl, apiKey } = await model.endpoint();
   *     const client = new OpenAI({ baseURL: baseUrl, apiKey });
   *
   * @throws TrajectoryError in a rollout that has ended, and outside of a rollout where
   * `outsideRollout` is `error`.
   */
  async endpoint(): Promise<ModelEndpoint> {
    if (!currentTrajectory()) this.#outside.meet(this.name);
    return openEndpoint(this.#caller);
  }

  /** The same model pinned to a checkpoint. @throws TypeError for a base model, which has none. */
  at(step: number): ModelHandle {
    const parsed = parseModelName(this.name);
    if (!parsed) throw new TypeError(`"${this.name}" is a base model and has no step ${step} to pin.`);
    return this.#copy(formatModelName({ ...parsed, step }), this.settings);
  }

  /** The same model with settings that win over what agents ask for. */
  with(settings: ModelSettings): ModelHandle {
    checkOptionNames('with() of a model', settings, settingsNames);
    return this.#copy(this.name, { ...this.settings, ...settings });
  }

  /** The same model, which writes each call to a file that `replayModel` answers from: see `recordCalls`. */
  recordingTo(file: string): ModelHandle {
    const completions = this.#completions ?? this.client.chat.completions;
    return this.#copy(this.name, this.settings, recordCalls({ file, completions }));
  }

  #copy(name: string, settings: ModelSettings, completions = this.#completions): ModelHandle {
    return new ModelHandle({ client: this.#client, name, id: this.id, settings, completions });
  }
}

const known = new WeakMap<ModelHandle, Map<'error' | 'warn', ModelHandle>>();

/**
 * The model as a rollout is given it: a call of it outside of any rollout is an error or a warning, as the rollout's
 * own unexpected calls are. The same handle for all rollouts of a model, so that it warns once.
 */
export function forRollout(model: RolloutModel, onUnexpectedCall: 'error' | 'warn'): RolloutModel {
  // What the user said stands; a model that records nothing has no calls to miss.
  if (!(model instanceof ModelHandle) || model.settings.outsideRollout || model.settings.record === false)
    return model;
  const handles = known.get(model) ?? new Map<'error' | 'warn', ModelHandle>();
  known.set(model, handles);
  const handle = handles.get(onUnexpectedCall) ?? model.with({ outsideRollout: onUnexpectedCall });
  handles.set(onUnexpectedCall, handle);
  return handle;
}
