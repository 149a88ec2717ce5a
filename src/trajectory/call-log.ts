import type { Choice } from '../contract/index.ts';
import { History } from './history.ts';
import type { RecordedCall, TrajectoryCall } from './recorded-call.ts';
import { begunBy, continuedBy, replyOf, type SpokenCall } from './spoken-call.ts';

/** A call that was read back: ids of prompts are not kept on disk, only how many they were. */
export interface RestoredCall {
  call: RecordedCall;
  promptTokens: number;
  /** Sum of its step rewards; absent where none was given. */
  reward?: number | undefined;
}

/** The answered calls of one rollout: their histories, and what was given to each. */
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

  /** Tool calls that the choices asked for. */
  get toolCalls(): number {
    return this.#toolCalls;
  }

  get(index: number): RecordedCall | undefined {
    return this.#calls.get(index);
  }

  /** In the order in which they began, whichever was answered first. */
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

  /** Adds a call to the history that its prompt extends token for token, else as a new history. */
  add(call: RecordedCall): void {
    this.#count(call, call.promptTokenIds.length);
    const history = this.#histories.find((candidate) => candidate.isExtendedBy(call));
    if (history) history.extend(call);
    else {
      this.#histories.push(History.begin(call));
      this.#histories.sort((a, b) => a.firstCall - b.firstCall);
    }
  }

  /** Adds a call whose tokens are not known, as messages: to the conversation that it goes on from, else as a new one. */
  addSpoken(call: SpokenCall): void {
    const { index, messages, tools, choice, model, promptTokens, sampledTokens } = call;
    const reply = replyOf(call);
    const spoken = { reply, sampledTokens };
    this.#count({ index, messages, tools, choice, model, promptTokenIds: [], spoken }, promptTokens);
    for (const [at, history] of this.#histories.entries()) {
      const continued = continuedBy(history, call, reply);
      if (!continued) continue;
      this.#histories[at] = continued;
      return;
    }
    this.#histories.push(begunBy(call, reply));
    this.#histories.sort((a, b) => a.firstCall - b.firstCall);
  }

  /** Takes over what was read back: histories as they were written, and the calls whose choices stand in them. */
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
      throw new RangeError(
        `Call ${index} of the rollout has not been recorded; it cannot be given a reward.`,
      );
    this.#stepRewards.set(index, (this.#stepRewards.get(index) ?? 0) + reward);
  }

  /** The sum of the step rewards of one call; undefined where none was given. */
  stepRewardOf(index: number): number | undefined {
    return this.#stepRewards.get(index);
  }

  /** The sum of the step rewards of all calls; undefined where none was given. */
  get stepReward(): number | undefined {
    if (this.#stepRewards.size === 0) return undefined;
    return sum(this.#stepRewards.values());
  }

  credit(rewards: ReadonlyMap<number, number>): void {
    for (const { index, choice } of this.#calls.values()) {
      const credited = rewards.get(index);
      if (credited !== undefined) choice.credited_reward = credited;
    }
  }

  /** Keeps everything from being changed, by whoever holds a part of it. */
  seal(): void {
    for (const history of this.#histories) history.seal();
  }

  get choices(): Choice[] {
    return this.#histories.flatMap((history) => history.choices);
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
