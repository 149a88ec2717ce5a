import { History } from './history.ts';
import { type RecordedCall, type SpokenCall, sampledMessage, type TrajectoryCall } from './recorded-call.ts';

/** A call read from disk. The record has the number of prompt tokens, not their ids. */
export interface RestoredCall {
  call: RecordedCall;
  promptTokens: number;
  /** Sum of the call's step rewards; absent if it has none. */
  reward?: number | undefined;
}

/** The answered calls of one rollout, their histories and their step rewards. */
export class CallLog {
  readonly #histories: History[] = [];
  readonly #calls = new Map<number, RecordedCall>();
  readonly #stepRewards = new Map<number, number>();
  readonly #promptTokens = new Map<number, number>();
  #sampledTokens = 0;
  #toolCalls = 0;

  /** Conversations in the order in which their first calls began. */
  get histories(): readonly History[] {
    return this.#histories;
  }

  get sampledTokens(): number {
    return this.#sampledTokens;
  }

  get promptTokens(): number {
    return sum(this.#promptTokens.values());
  }

  promptTokensOf(index: number): number {
    return this.#promptTokens.get(index) ?? 0;
  }

  /** Number of tool calls in the choices. */
  get toolCalls(): number {
    return this.#toolCalls;
  }

  get(index: number): RecordedCall | undefined {
    return this.#calls.get(index);
  }

  /** Ordered by the start of the calls, not by their answers. */
  get recorded(): RecordedCall[] {
    return [...this.#calls.values()].sort((a, b) => a.index - b.index);
  }

  get calls(): TrajectoryCall[] {
    return this.recorded.map(({ index, messages, choice }) => ({
      index,
      messages,
      choice,
      reward: this.#stepRewards.get(index) ?? 0,
    }));
  }

  /** Adds a call to the history that it extends, or starts a new history. */
  add(call: RecordedCall, promptTokens = call.promptTokenIds.length): void {
    this.#count(call, promptTokens);
    const history = this.#histories.find((candidate) => candidate.isExtendedBy(call));
    if (history) history.extend(call);
    else this.#histories.push(History.begin(call));
    this.#histories.sort((a, b) => a.firstCall - b.firstCall);
  }

  /** Adds a call of an external model. */
  addSpoken({ promptTokens, sampledTokens, ...call }: SpokenCall): void {
    const reply = sampledMessage(call.choice, { tokenIds: false });
    this.add({ ...call, promptTokenIds: [], spoken: { reply, sampledTokens } }, promptTokens);
  }

  /** Restores histories and calls read from disk. The calls share their choices with the histories. */
  restore(histories: readonly History[], calls: readonly RestoredCall[]): void {
    this.#histories.push(...histories);
    for (const { call, promptTokens, reward } of calls) {
      this.#count(call, promptTokens);
      if (reward !== undefined) this.#stepRewards.set(call.index, reward);
    }
  }

  /** @throws RangeError for a reward that is not finite, or a call that has not been recorded. */
  reward(reward: number, index: number = Math.max(...this.#calls.keys())): void {
    if (!Number.isFinite(reward)) throw new RangeError(`A step reward is ${reward}; give a finite number.`);
    if (!this.#calls.has(index))
      throw new RangeError(`Call ${index} of the rollout has not been recorded; it cannot have a reward.`);
    this.#stepRewards.set(index, (this.#stepRewards.get(index) ?? 0) + reward);
  }

  /** The sum of the step rewards of one call; undefined if it has none. */
  stepRewardOf(index: number): number | undefined {
    return this.#stepRewards.get(index);
  }

  /** The sum of the step rewards of all calls; undefined if there are none. */
  get stepReward(): number | undefined {
    return this.#stepRewards.size === 0 ? undefined : sum(this.#stepRewards.values());
  }

  credit(rewards: ReadonlyMap<number, number>): void {
    for (const { index, choice } of this.#calls.values()) {
      const credited = rewards.get(index);
      if (credited !== undefined) choice.credited_reward = credited;
    }
  }

  #count(call: RecordedCall, promptTokens: number): void {
    this.#calls.set(call.index, call);
    this.#promptTokens.set(call.index, promptTokens);
    this.#sampledTokens += call.spoken?.sampledTokens ?? call.choice.token_ids?.length ?? 0;
    this.#toolCalls += call.choice.message.tool_calls?.length ?? 0;
  }
}

function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}
