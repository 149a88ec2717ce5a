import { randomUUID } from 'node:crypto';
import { type Choice, parseModelName, type TrajectoryBody } from '../contract/index.ts';
import { type CallEnd, CallEnds } from './call-ends.ts';
import { CallLog } from './call-log.ts';
import {
  NotTrainableError,
  TrajectoryClosedError,
  TrajectorySealedError,
  type UnexpectedCallError,
} from './errors.ts';
import type { History } from './history.ts';
import { type RolloutLimits, type RolloutUsage, reachedLimit } from './limits.ts';
import { Observations } from './observations.ts';
import type { RecordedCall, TrajectoryCall } from './recorded-call.ts';
import { deriveSeed } from './seed.ts';
import type { SpokenCall } from './spoken-call.ts';
import type { RestoredTrajectory, TrajectoryOptions, UnrewardedTrajectory } from './trajectory-options.ts';
import { checkCall } from './unexpected-call.ts';

/**
 * The record of one rollout: every model call with its token ids, as one or more histories, and what was made of
 * it: reward, metrics, metadata, logs.
 */
export class Trajectory {
  readonly id: string;
  readonly policy: string | undefined;
  readonly seed: number;
  readonly signal: AbortSignal | undefined;
  readonly startTime: Date;
  /** Numbers to follow, by name; rewards add theirs. Write your own here from rollouts and rewards. */
  readonly metrics: Record<string, number | boolean> = {};
  readonly metadata: Record<string, number | string | boolean | null> = {};
  readonly logs: string[] = [];
  /** What the harness saw beside the calls: the step's report counts it. */
  readonly observations: Observations;
  /** Why the rollout's conversation ended: a limit, or what the environment says; null where nothing has been said. */
  stopReason: string | null = null;
  #reward: number | null = null;
  #isSealed = false;
  readonly #onUnexpectedCall: 'error' | 'warn';
  readonly #limits: RolloutLimits;
  readonly #log = new CallLog();
  #callEnds = new CallEnds();
  readonly #startedMs = performance.now();
  /** How long it took, once it is closed. */
  #tookMs: number | undefined;
  #begun = 0;
  #violation: UnexpectedCallError | undefined;
  #externalModel: string | undefined;

  constructor(options: TrajectoryOptions = {}, observations = new Observations()) {
    const { policy, seed = 0, onUnexpectedCall = 'error', signal, limits = {} } = options;
    this.id = options.id ?? randomUUID();
    this.startTime = options.startTime ?? new Date();
    this.policy = policy;
    this.seed = seed;
    this.signal = signal;
    this.#onUnexpectedCall = onUnexpectedCall;
    this.#limits = limits;
    this.observations = observations;
  }

  /** A closed trajectory as it was; see `fromTrajectoryRecord`. */
  static restore(options: TrajectoryOptions, restored: RestoredTrajectory): Trajectory {
    const trajectory = new Trajectory(options, new Observations(restored.observations));
    trajectory.#log.restore(restored.histories, restored.calls);
    trajectory.#callEnds = new CallEnds(restored.refusedCalls);
    trajectory.#begun = restored.turns;
    trajectory.#tookMs = restored.milliseconds;
    trajectory.#violation = restored.violation;
    trajectory.#externalModel = restored.externalModel;
    return trajectory;
  }

  /** Weighted sum of the rewards, and the step rewards; null until they have been computed. */
  get reward(): number | null {
    return this.#reward;
  }

  /** @throws TrajectorySealedError once it was handed over. */
  set reward(reward: number | null) {
    if (this.#isSealed) throw new TrajectorySealedError(this.id);
    this.#reward = reward;
  }

  /**
   * Makes it as it is for good: what is written, logged and trained on from here on is the same. Whoever changes it
   * later gets an error, a TypeError where it is a list or a record.
   */
  seal(): void {
    if (this.#isSealed) return;
    this.close();
    this.#isSealed = true;
    this.#log.seal();
    this.observations.seal();
    for (const part of [this.metrics, this.metadata, this.logs]) Object.freeze(part);
  }

  /** Whether it was handed over, and cannot be changed any more. */
  get isSealed(): boolean {
    return this.#isSealed;
  }

  /** Conversations in the order in which their first calls began: the first is the main one. */
  get histories(): readonly History[] {
    return this.#log.histories;
  }

  get choices(): Choice[] {
    return this.#log.choices;
  }

  /** Number of sampled tokens, over all histories. */
  get sampledTokens(): number {
    return this.#log.sampledTokens;
  }

  /** Number of prompt tokens that were sent, over all calls: what a hosted service bills. */
  get promptTokens(): number {
    return this.#log.promptTokens;
  }

  /** The recorded calls, in the order in which they began. */
  get calls(): TrajectoryCall[] {
    return this.#log.calls;
  }

  /** What has been used of the limits; calls in flight count as turns. */
  get usage(): RolloutUsage {
    return {
      turns: this.#begun,
      tokens: this.#log.sampledTokens,
      toolCalls: this.#log.toolCalls,
      milliseconds: this.#tookMs ?? performance.now() - this.#startedMs,
    };
  }

  /** Sampled tokens that the rollout may still use; undefined without a limit. */
  get remainingTokens(): number | undefined {
    const { tokens } = this.#limits;
    return tokens === undefined ? undefined : Math.max(0, tokens - this.#log.sampledTokens);
  }

  /**
   * Gives a step reward to a call: the newest recorded one, or the one of that index. Several add up. The sum of all
   * of them is part of the trajectory's reward; how calls are credited is the environment's `credit`.
   * @throws RangeError for a reward that is not finite, or a call that has not been recorded.
   */
  rewardCall(reward: number, { call }: { call?: number } = {}): void {
    if (this.#isSealed) throw new TrajectorySealedError(this.id);
    this.#log.reward(reward, call);
  }

  /** Sum of the step rewards; undefined where none was given. */
  get stepReward(): number | undefined {
    return this.#log.stepReward;
  }

  /** Sum of the step rewards of the call of that index; undefined where none was given. */
  stepRewardOf(call: number): number | undefined {
    return this.#log.stepRewardOf(call);
  }

  /** Number of prompt tokens that the call of that index sent; 0 where it has not been recorded. */
  promptTokensOf(call: number): number {
    return this.#log.promptTokensOf(call);
  }

  /** Credits each call of that index with a reward of its own, in place of the trajectory's: see `credited_reward`. */
  creditCalls(rewards: ReadonlyMap<number, number>): void {
    if (this.#isSealed) throw new TrajectorySealedError(this.id);
    this.#log.credit(rewards);
  }

  /** Step of each recorded choice that a checkpoint answered, in the order in which the calls began. */
  get policyVersions(): number[] {
    return this.#log.recorded.flatMap((call) => parseModelName(call.model)?.step ?? []);
  }

  /** The first call that broke the rules, also where the agent swallowed the error it was given. */
  get violation(): UnexpectedCallError | undefined {
    return this.#violation;
  }

  /**
   * Takes the next place among the calls, and the seed that belongs to it.
   * @throws TrajectoryClosedError after the rollout has ended, LimitReachedError where a limit is used up.
   */
  beginCall(): { index: number; callId: string; seed: number } {
    if (this.isClosed) {
      this.observations.addLateCall();
      throw new TrajectoryClosedError(this.id);
    }
    const reached = reachedLimit(this.#limits, this.usage);
    if (reached) {
      this.stopReason ??= reached.reason;
      throw reached;
    }
    const index = this.#begun++;
    return { index, callId: this.#callId(index), seed: deriveSeed(this.seed, index) };
  }

  /** Notes how a model call of the rollout ended; `index` where it is recorded. Nothing counts after the rollout's end. */
  noteCallEnd(end: CallEnd, index?: number): void {
    if (this.isClosed) return;
    this.#callEnds.note(end, index);
    const isAtContextEnd = end === 'cut_by_context' || end === 'refused_by_context';
    if (isAtContextEnd && index !== undefined) this.observations.contextOverflows++;
  }

  /** How its model calls ended, those that are not recorded too. */
  get callEnds(): CallEnds {
    return this.#callEnds;
  }

  /** The recorded call of that id, where it is one of this trajectory's. */
  call(callId: string): RecordedCall | undefined {
    const own = `${this.id}:`;
    return callId.startsWith(own) ? this.#log.get(Number(callId.slice(own.length))) : undefined;
  }

  /** The recorded calls as they went over the wire, in the order in which they began. */
  get recordedCalls(): readonly RecordedCall[] {
    return this.#log.recorded;
  }

  /**
   * Adds an answered call: to the history that its prompt extends token for token, else as a new history.
   * @throws UnexpectedCallError for a call that cannot be trained on, unless the policy is to warn.
   * @throws TrajectoryClosedError after the rollout has ended, RangeError for a place that is not the call's.
   */
  record(callId: string, call: RecordedCall): void {
    if (this.isClosed) throw new TrajectoryClosedError(this.id);
    if (callId !== this.#callId(call.index))
      throw new RangeError(`"${callId}" is not call ${call.index} of trajectory ${this.id}.`);
    const violation = checkCall(call, this.policy);
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
    this.#log.add(call);
  }

  /**
   * Adds an answered call of a externalModel, as messages: they can be read and scored, and not trained on.
   * @throws TrajectoryClosedError after the rollout has ended, RangeError for a place that is not the call's.
   */
  recordMessages(callId: string, call: SpokenCall): void {
    if (this.isClosed) throw new TrajectoryClosedError(this.id);
    if (callId !== this.#callId(call.index))
      throw new RangeError(`"${callId}" is not call ${call.index} of trajectory ${this.id}.`);
    this.#externalModel ??= call.model;
    this.#log.addSpoken(call);
  }

  /** Says that an external model is called where it cannot be recorded: by a program that reaches it at an endpoint of its own. */
  leaveToBaseline(name: string): void {
    this.#externalModel ??= name;
  }

  /** Name of the external model whose calls are in the trajectory; undefined for what can be trained on. */
  get externalModel(): string | undefined {
    return this.#externalModel;
  }

  /** @throws NotTrainableError where an external model's calls are in it. */
  requireTrainable(): void {
    if (this.#externalModel !== undefined) throw new NotTrainableError(this.id, this.#externalModel);
  }

  /** Ends the record; the rollout runner calls it when the rollout is over. */
  close(): void {
    this.#tookMs ??= performance.now() - this.#startedMs;
  }

  get isClosed(): boolean {
    return this.#tookMs !== undefined;
  }

  /** Everything but the reward, as the wire has it. */
  toRecord(): UnrewardedTrajectory {
    const [main, ...others] = this.histories;
    const versions = this.policyVersions;
    return {
      messages_and_choices: [],
      ...main?.toBody(),
      ...(others.length > 0 ? { additional_histories: others.map((history) => history.toBody()) } : {}),
      ...(versions.length > 0
        ? { initial_policy_version: versions[0], final_policy_version: versions.at(-1) }
        : {}),
      metrics: this.metrics,
      metadata: this.stopReason === null ? this.metadata : { ...this.metadata, stop_reason: this.stopReason },
      logs: this.logs,
      start_time: this.startTime.toISOString(),
    };
  }

  /** The trajectory as it is logged and trained on. @throws TypeError while it has no reward. */
  toBody(): TrajectoryBody {
    if (this.reward === null) {
      throw new TypeError(`Trajectory ${this.id} has no reward: its rollout has not completed.`);
    }
    return { ...this.toRecord(), reward: this.reward };
  }

  #callId(index: number): string {
    return `${this.id}:${index}`;
  }
}
