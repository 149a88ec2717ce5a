import { randomUUID } from 'node:crypto';
import { type Choice, parseModelName, type TrajectoryBody } from '../contract/index.ts';
import { CallLog } from './call-log.ts';
import type { BodyForm, History, HistoryBody } from './history.ts';
import { type CallEnd, Observations } from './observations.ts';
import {
  type AnsweredCall,
  type ExternalCall,
  sampledMessage,
  type TrajectoryCall,
} from './recorded-call.ts';
import { deriveSeed } from './seed.ts';
import { sendableNotes } from './sendable.ts';
import {
  checkCall,
  TrajectoryError,
  trajectoryClosed,
  type UnexpectedCallError,
} from './trajectory-error.ts';
import {
  type RolloutLimits,
  type RolloutUsage,
  reachedLimit,
  type TrajectoryOptions,
  type UnrewardedTrajectory,
} from './trajectory-options.ts';

/**
 * The record of one rollout: every model call with its token ids, in one or more histories, and the rollout's reward,
 * metrics, metadata and logs.
 */
export class Trajectory {
  readonly id: string;
  readonly policy: string | undefined;
  readonly seed: number;
  readonly signal: AbortSignal | undefined;
  readonly startTime: Date;
  /** Metrics by name. Rollouts and rewards may add their own. */
  readonly metrics: Record<string, number | boolean> = {};
  readonly metadata: Record<string, number | string | boolean | null> = {};
  readonly logs: string[] = [];
  /** Facts other than the calls, for the step's report. */
  readonly observations: Observations;
  /** The recorded calls as sent over the wire, for the harness. Rewards read `calls`. */
  readonly log: CallLog;
  /** Why the conversation ended: a limit, or a reason set by the environment. Null if there is none. */
  stopReason: string | null = null;
  #reward: number | null = null;
  #isSealed = false;
  #isReleased = false;
  #hasTokens = true;
  readonly #onUnexpectedCall: 'error' | 'warn';
  readonly #limits: RolloutLimits;
  readonly #startedMs = performance.now();
  /** Duration of the rollout in milliseconds; undefined while it is open. */
  #tookMs: number | undefined;
  #startedCalls = 0;
  #agentSignal: AbortSignal | undefined;
  #violation: UnexpectedCallError | undefined;
  #externalModel: string | undefined;

  constructor(options: TrajectoryOptions = {}, observations = new Observations(), log = new CallLog()) {
    const { policy, seed = 0, onUnexpectedCall = 'error', signal, agentSignal, limits = {} } = options;
    // In one piece: `randomUUID` joins many, and V8 would keep each.
    this.id = options.id ?? Buffer.from(randomUUID()).toString();
    this.startTime = options.startTime ?? new Date();
    this.policy = policy;
    this.seed = seed;
    this.signal = signal;
    this.#agentSignal = agentSignal;
    this.#onUnexpectedCall = onUnexpectedCall;
    this.#limits = limits;
    this.observations = observations;
    this.log = log;
  }

  /** Restores a closed trajectory; see `fromTrajectoryRecord`. */
  static restore(
    options: TrajectoryOptions,
    restored: Pick<Trajectory, 'log' | 'observations' | 'violation' | 'externalModel'> &
      Pick<RolloutUsage, 'turns' | 'milliseconds'>,
  ): Trajectory {
    const trajectory = new Trajectory(options, restored.observations, restored.log);
    trajectory.#startedCalls = restored.turns;
    trajectory.#tookMs = restored.milliseconds;
    trajectory.#violation = restored.violation;
    trajectory.#externalModel = restored.externalModel;
    return trajectory;
  }

  /** Weighted sum of the rewards, plus the step rewards; null until they are computed. */
  get reward(): number | null {
    return this.#reward;
  }

  /** @throws TrajectoryError of code `trajectory_sealed` once the trajectory has been submitted. */
  set reward(reward: number | null) {
    this.#requireUnsealed();
    this.#reward = reward;
  }

  /**
   * Closes and freezes the trajectory, so that the same data is written, logged and trained on. Later changes throw
   * TrajectoryError, or TypeError for a change to an array or object; only lists of log-probabilities are not frozen.
   */
  seal(): void {
    if (this.#isSealed) return;
    this.close();
    this.#isSealed = true;
    for (const history of this.histories) history.seal();
    this.observations.seal();
    for (const part of [this.metrics, this.metadata, this.logs]) Object.freeze(part);
  }

  /** Whether the trajectory was submitted, so that it can no longer change. */
  get isSealed(): boolean {
    return this.#isSealed;
  }

  /**
   * Lets the messages and tokens of a trajectory go, which are most of its memory. What is left serves figures. The
   * trajectory can no longer be written or trained on, so its record must be on disk.
   * @param options.keepsTexts Keeps the messages and sampled token ids, so that the conversations can still be read.
   * Default false.
   */
  release({ keepsTexts = false } = {}): void {
    if (this.#isReleased) return;
    this.#isReleased = !keepsTexts;
    this.#hasTokens = false;
    this.log.release(keepsTexts);
  }

  get isReleased(): boolean {
    return this.#isReleased;
  }

  /** Conversations in the order their first calls began. The first is the main one. */
  get histories(): readonly History[] {
    return this.log.histories;
  }

  get choices(): Choice[] {
    return this.histories.flatMap((history) => history.choices);
  }

  /** Number of sampled tokens over all histories. */
  get sampledTokens(): number {
    return this.log.sampledTokens;
  }

  /** Number of prompt tokens over all calls, as a hosted service bills them. */
  get promptTokens(): number {
    return this.log.promptTokens;
  }

  /** The recorded calls, in the order they began. */
  get calls(): TrajectoryCall[] {
    return this.log.calls.map(({ index, messages, choice, reward = 0 }) => ({
      index,
      messages,
      choice,
      reward,
    }));
  }

  /** Use of the limits so far. Calls in flight count as turns. */
  get usage(): RolloutUsage {
    return {
      turns: this.#startedCalls,
      tokens: this.log.sampledTokens,
      toolCalls: this.log.toolCalls,
      milliseconds: this.milliseconds,
    };
  }

  /** Since the rollout began; its duration once it has ended. */
  get milliseconds(): number {
    return this.#tookMs ?? performance.now() - this.#startedMs;
  }

  /** Tokens that the rollout may still sample; undefined without a limit. */
  get remainingTokens(): number | undefined {
    const { tokens } = this.#limits;
    return tokens === undefined ? undefined : Math.max(0, tokens - this.log.sampledTokens);
  }

  /**
   * Adds a step reward to the call with this index (default: the newest recorded call). The sum of all step rewards is
   * part of the trajectory's reward. The environment's `credit` decides how calls are credited.
   * @throws RangeError for a reward that is not finite, or a call that is not recorded.
   */
  rewardCall(reward: number, { call }: { call?: number } = {}): void {
    this.#requireUnsealed();
    this.log.reward(reward, call);
  }

  /** Sum of the step rewards; undefined if there are none. */
  get stepReward(): number | undefined {
    return this.log.stepReward;
  }

  /** Sets `credited_reward` by call index. Training uses it for these calls instead of the trajectory's reward. */
  creditCalls(rewards: ReadonlyMap<number, number>): void {
    this.#requireUnsealed();
    this.log.credit(rewards);
  }

  /** Checkpoint step of each recorded call that a checkpoint answered, in the order the calls began. */
  get policyVersions(): number[] {
    return this.log.calls.flatMap((call) => parseModelName(call.model)?.step ?? []);
  }

  /** The error of the first call that cannot be trained on, even if the agent caught it. */
  get violation(): UnexpectedCallError | undefined {
    return this.#violation;
  }

  /**
   * Begins a call: assigns its index and seed.
   * @throws TrajectoryError if the rollout has ended or a limit is reached.
   */
  startCall(): { index: number; callId: string; seed: number } {
    if (this.isClosed) {
      this.observations.addLateCall();
      throw trajectoryClosed(this.id);
    }
    const reached = reachedLimit(this.#limits, this.usage);
    if (reached) {
      this.stopReason ??= reached.code;
      throw reached;
    }
    const index = this.#startedCalls++;
    return { index, callId: this.callId(index), seed: deriveSeed(this.seed, index) };
  }

  /** What aborts a call: the end of the rollout, or the agent's `own` signal, if it has given the call another one. */
  callSignal(own: AbortSignal | undefined): AbortSignal | undefined {
    if (!own || own === this.#agentSignal) return this.signal;
    return this.signal ? AbortSignal.any([own, this.signal]) : own;
  }

  /** Notes how a model call ended. `index` is undefined if the call is not recorded. Ignored after the rollout's end. */
  endCall(end: CallEnd, index?: number): void {
    if (!this.isClosed) this.observations.addCallEnd(end, index);
  }

  /**
   * Notes that a model call got no answer: a failed or unreachable service, a timeout, an abort. Ignored after the
   * rollout's end, and if the rollout itself aborted the call.
   * @param messages The call's messages; undefined if the request could not be read.
   */
  failCall(error: unknown, messages?: readonly unknown[]): void {
    if (!this.isClosed && !this.signal?.aborted) this.observations.addUnanswered(error, messages);
  }

  /** The id of a call, which no call of another trajectory has. */
  callId(index: number): string {
    return `${this.id}:${index}`;
  }

  /**
   * Adds an answered call to the history that its prompt extends token for token, or starts a new history.
   * @throws TrajectoryError if the call cannot be trained on (unless `onUnexpectedCall` is `warn`) or the rollout has
   * ended.
   */
  record({ promptTokenIds, ...call }: AnsweredCall): void {
    this.#requireOpen();
    // The service reports the prompt twice. Of two lists that are equal, one is kept.
    const prompt = call.choice.prompt_token_ids ?? promptTokenIds;
    const violation = checkCall({ ...call, promptTokenIds: prompt }, this.policy);
    if (violation) {
      if (this.#onUnexpectedCall === 'error') {
        this.#violation ??= violation;
        throw violation;
      }
      this.metrics.unexpected_calls = Number(this.metrics.unexpected_calls ?? 0) + 1;
      this.logs.push(`${violation.message} The call is left out of the trajectory.`);
      return;
    }
    for (const { id, function: called } of call.choice.message.tool_calls ?? [])
      this.observations.expectTool(id, called.name);
    const { isRewritten } = this.log.add({ ...call, promptTokens: prompt.length }, prompt);
    if (isRewritten) this.observations.rewrittenHistories++;
  }

  /**
   * Adds an answered call of an external model as messages, which can be scored but not trained on.
   * @throws TrajectoryError if the rollout has ended.
   */
  recordMessages({ sampledTokens, ...call }: ExternalCall): void {
    this.#requireOpen();
    this.#externalModel ??= call.model;
    const reply = sampledMessage(call.choice, { tokenIds: false });
    this.log.add({ ...call, external: { reply, sampledTokens } });
  }

  /** Notes that the agent calls an external model at the model's own endpoint, where calls cannot be recorded. */
  noteExternalModel(name: string): void {
    this.#externalModel ??= name;
  }

  /** Name of the external model that the rollout called; undefined if the trajectory can be trained on. */
  get externalModel(): string | undefined {
    return this.#externalModel;
  }

  /** @throws TrajectoryError of code `not_trainable` if the rollout called an external model, or was released. */
  requireTrainable(): void {
    if (!this.#hasTokens)
      throw new TrajectoryError(
        'not_trainable',
        `Trajectory ${this.id} has let its prompts and log-probabilities go, because its validation has ended: it can be ` +
          'read and compared, but not trained on. Run new rollouts for training.',
      );
    if (this.#externalModel === undefined) return;
    throw new TrajectoryError(
      'not_trainable',
      `Trajectory ${this.id} was recorded from the external model "${this.#externalModel}", which returns no token ids: ` +
        'it can be read, scored and compared, but not trained on. Run the rollouts for training with a model of the service.',
    );
  }

  /** Closes the trajectory for new calls. The rollout runner calls it at the rollout's end. */
  close(): void {
    this.#tookMs ??= performance.now() - this.#startedMs;
    this.#agentSignal = undefined;
  }

  get isClosed(): boolean {
    return this.#tookMs !== undefined;
  }

  /** The trajectory as it is kept on disk, without its reward. @throws TypeError for a released trajectory. */
  toRecord(): UnrewardedTrajectory {
    return this.#write((history) => history.toRecord());
  }

  /** The trajectory in its wire format, for logging and training. @throws TypeError while it has no reward. */
  toBody(form?: BodyForm): TrajectoryBody {
    if (this.reward === null)
      throw new TypeError(`Trajectory ${this.id} has no reward: its rollout has not completed.`);
    return { ...this.#write((history) => history.toBody(form)), reward: this.reward };
  }

  #write(form: (history: History) => HistoryBody): UnrewardedTrajectory {
    if (this.#isReleased)
      throw new TypeError(`Trajectory ${this.id} was released: its conversations are on disk.`);
    const [main, ...others] = this.histories.map(form);
    const versions = this.policyVersions;
    return {
      messages_and_choices: [],
      ...main,
      ...(others.length > 0 ? { additional_histories: others } : {}),
      ...(versions.length > 0
        ? { initial_policy_version: versions[0], final_policy_version: versions.at(-1) }
        : {}),
      ...sendableNotes(this),
      start_time: this.startTime.toISOString(),
    };
  }

  #requireUnsealed(): void {
    if (!this.#isSealed) return;
    throw new TrajectoryError(
      'trajectory_sealed',
      `Trajectory ${this.id} has been submitted for training: it cannot change. Set rewards and credit in ` +
        'the environment, or before the group is submitted.',
    );
  }

  #requireOpen(): void {
    if (this.isClosed) throw trajectoryClosed(this.id);
  }
}
