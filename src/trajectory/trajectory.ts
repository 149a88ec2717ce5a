import { randomUUID } from 'node:crypto';
import { type Choice, parseModelName, type TrajectoryBody } from '../contract/index.ts';
import { TrajectoryClosedError, UnexpectedCallError } from './errors.ts';
import { History } from './history.ts';
import { type RolloutLimits, type RolloutUsage, reachedLimit } from './limits.ts';
import type { RecordedCall, TrajectoryCall } from './recorded-call.ts';
import { deriveSeed } from './seed.ts';

export interface TrajectoryOptions {
  /** Pinned name (`entity/project/name:stepN`) that must answer every call; absent: whatever answers is taken. */
  policy?: string;
  /** Seed of the rollout; each call's seed follows from it and from the call's index. Default 0. */
  seed?: number;
  /** What to do with a call that cannot be trained on: fail (default), or leave it out and say so in `logs`. */
  onUnexpectedCall?: 'error' | 'warn';
  /** Aborted when the rollout is over: calls still in flight end with it. */
  signal?: AbortSignal;
  /** What the rollout may use; a call beyond it throws LimitReachedError. Default: no limits. */
  limits?: RolloutLimits;
}

/**
 * The record of one rollout: every model call with its token ids, as one or more histories, and what was made of
 * it: reward, metrics, metadata, logs.
 */
export class Trajectory {
  readonly id = randomUUID();
  readonly policy: string | undefined;
  readonly seed: number;
  readonly signal: AbortSignal | undefined;
  readonly startTime = new Date();
  /** Numbers to follow, by name; rewards add theirs. Write your own here from rollouts and rewards. */
  readonly metrics: Record<string, number | boolean> = {};
  readonly metadata: Record<string, number | string | boolean | null> = {};
  readonly logs: string[] = [];
  /** Why the rollout's conversation ended: a limit, or what the environment says; null where nothing has been said. */
  stopReason: string | null = null;
  /** Weighted sum of the rewards, and the step rewards; null until they have been computed. */
  reward: number | null = null;
  readonly #onUnexpectedCall: 'error' | 'warn';
  readonly #limits: RolloutLimits;
  readonly #startedMs = performance.now();
  readonly #stepRewards = new Map<number, number>();
  #tokens = 0;
  #toolCalls = 0;
  readonly #histories: History[] = [];
  readonly #calls = new Map<string, RecordedCall>();
  #begun = 0;
  #closed = false;
  #violation: UnexpectedCallError | undefined;

  constructor({ policy, seed = 0, onUnexpectedCall = 'error', signal, limits = {} }: TrajectoryOptions = {}) {
    this.policy = policy;
    this.seed = seed;
    this.signal = signal;
    this.#onUnexpectedCall = onUnexpectedCall;
    this.#limits = limits;
  }

  /** Conversations in the order in which their first calls began: the first is the main one. */
  get histories(): readonly History[] {
    return this.#histories;
  }

  get choices(): Choice[] {
    return this.#histories.flatMap((history) => history.choices);
  }

  /** Number of sampled tokens, over all histories. */
  get sampledTokens(): number {
    return this.#tokens;
  }

  /** Number of prompt tokens that were sent, over all calls: what a hosted service bills. */
  get promptTokens(): number {
    return [...this.#calls.values()].reduce((sum, call) => sum + call.promptTokenIds.length, 0);
  }

  /** The recorded calls, in the order in which they began. */
  get calls(): TrajectoryCall[] {
    return [...this.#calls.values()]
      .sort((a, b) => a.index - b.index)
      .map(({ index, messages, choice }) => ({
        index,
        messages,
        choice,
        reward: this.#stepRewards.get(index) ?? 0,
      }));
  }

  /** What has been used of the limits; calls in flight count as turns. */
  get usage(): RolloutUsage {
    return {
      turns: this.#begun,
      tokens: this.#tokens,
      toolCalls: this.#toolCalls,
      milliseconds: performance.now() - this.#startedMs,
    };
  }

  /** Sampled tokens that the rollout may still use; undefined without a limit. */
  get remainingTokens(): number | undefined {
    const { tokens } = this.#limits;
    return tokens === undefined ? undefined : Math.max(0, tokens - this.#tokens);
  }

  /**
   * Gives a step reward to a call: the newest recorded one, or the one of that index. Several add up. The sum of all
   * of them is part of the trajectory's reward; how calls are credited is the environment's `credit`.
   * @throws RangeError for a reward that is not finite, or a call that has not been recorded.
   */
  rewardCall(reward: number, { call }: { call?: number } = {}): void {
    if (!Number.isFinite(reward)) throw new RangeError(`A step reward is ${reward}; give a finite number.`);
    const recorded = [...this.#calls.values()].map(({ index }) => index);
    const index = call ?? Math.max(...recorded);
    if (!recorded.includes(index))
      throw new RangeError(
        `Call ${index} of the rollout has not been recorded; it cannot be given a reward.`,
      );
    this.#stepRewards.set(index, (this.#stepRewards.get(index) ?? 0) + reward);
  }

  /** Sum of the step rewards; undefined where none was given. */
  get stepReward(): number | undefined {
    if (this.#stepRewards.size === 0) return undefined;
    return [...this.#stepRewards.values()].reduce((sum, reward) => sum + reward, 0);
  }

  /** Credits each call of that index with a reward of its own, in place of the trajectory's: see `credited_reward`. */
  creditCalls(rewards: ReadonlyMap<number, number>): void {
    for (const call of this.#calls.values()) {
      const credited = rewards.get(call.index);
      if (credited !== undefined) call.choice.credited_reward = credited;
    }
  }

  /** Step of each recorded choice that a checkpoint answered, in the order in which the calls began. */
  get policyVersions(): number[] {
    return [...this.#calls.values()]
      .sort((a, b) => a.index - b.index)
      .flatMap((call) => parseModelName(call.model)?.step ?? []);
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
    if (this.#closed) throw new TrajectoryClosedError(this.id);
    const reached = reachedLimit(this.#limits, this.usage);
    if (reached) {
      this.stopReason ??= reached.reason;
      throw reached;
    }
    const index = this.#begun++;
    return { index, callId: `${this.id}:${index}`, seed: deriveSeed(this.seed, index) };
  }

  /** The recorded call of that id, where it is one of this trajectory's. */
  call(callId: string): RecordedCall | undefined {
    return this.#calls.get(callId);
  }

  /**
   * Adds an answered call: to the history that its prompt extends token for token, else as a new history.
   * @throws UnexpectedCallError for a call that cannot be trained on, unless the policy is to warn.
   * @throws TrajectoryClosedError after the rollout has ended.
   */
  record(callId: string, call: RecordedCall): void {
    if (this.#closed) throw new TrajectoryClosedError(this.id);
    const violation = this.#check(call);
    if (violation) {
      if (this.#onUnexpectedCall === 'error') {
        this.#violation ??= violation;
        throw violation;
      }
      this.metrics.unexpected_calls = Number(this.metrics.unexpected_calls ?? 0) + 1;
      this.logs.push(`${violation.message} The call is left out of the trajectory.`);
      return;
    }
    this.#calls.set(callId, call);
    this.#tokens += call.choice.token_ids?.length ?? 0;
    this.#toolCalls += call.choice.message.tool_calls?.length ?? 0;
    const history = this.#histories.find((candidate) => candidate.isExtendedBy(call));
    if (history) history.extend(call);
    else {
      this.#histories.push(new History(call));
      this.#histories.sort((a, b) => a.firstCall - b.firstCall);
    }
  }

  /** Ends the record; the rollout runner calls it when the rollout is over. */
  close(): void {
    this.#closed = true;
  }

  /** Everything but the reward, as the wire has it. */
  toRecord(): Omit<TrajectoryBody, 'reward'> {
    const [main, ...others] = this.#histories;
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

  #check(call: RecordedCall): UnexpectedCallError | undefined {
    if (this.policy !== undefined && call.model !== this.policy) {
      return new UnexpectedCallError(
        'model_mismatch',
        `"${call.model}" answered a call of a rollout pinned to "${this.policy}". Call the model that the ` +
          'rollout is given; a judge or teacher on the same service is `model.with({ record: false })`.',
      );
    }
    if (!call.choice.token_ids?.length || call.promptTokenIds.length === 0) {
      return new UnexpectedCallError(
        'token_ids_missing',
        `"${call.model}" answered without token ids, so the call cannot be trained on exactly. The service must ` +
          'support `return_token_ids`.',
      );
    }
    return undefined;
  }
}
