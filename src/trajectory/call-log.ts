import type { Choice } from '../contract/index.ts';
import { largestOf } from '../util/extremes.ts';
import { History } from './history.ts';
import { type ExternalCall, type RecordedCall, sampledMessage } from './recorded-call.ts';

/** A call of the log. A call read from disk has no prompt token ids. */
export interface LoggedCall extends RecordedCall {
  promptTokens: number;
  /** Sum of the call's step rewards; absent if it has none. */
  reward?: number | undefined;
}

/** The answered calls of one rollout, their histories and their step rewards. */
export class CallLog {
  readonly #histories: History[];
  readonly #calls = new Map<number, LoggedCall>();
  sampledTokens = 0;
  promptTokens = 0;
  /** Number of tool calls in the choices. */
  toolCalls = 0;

  /** With arguments, restores calls read from disk. They share their choices with the histories. */
  constructor(histories: readonly History[] = [], calls: readonly LoggedCall[] = []) {
    this.#histories = [...histories];
    for (const call of calls) this.#count(call);
  }

  /** Conversations in the order in which their first calls began. */
  get histories(): readonly History[] {
    return this.#histories;
  }

  get(index: number): LoggedCall | undefined {
    return this.#calls.get(index);
  }

  /** Ordered by the start of the calls, not by their answers. */
  get calls(): LoggedCall[] {
    return [...this.#calls.values()].sort((a, b) => a.index - b.index);
  }

  /**
   * Adds a call to the history that it extends, or starts a new history. Returns whether the new one repeats the
   * messages of another, so that the chat template has rewritten them.
   */
  add(call: RecordedCall, promptTokens = call.promptTokenIds.length): { isRewritten: boolean } {
    this.#count({ ...call, promptTokens });
    const history = this.#histories.find((candidate) => candidate.isExtendedBy(call));
    const isRewritten = !history && this.#histories.some((candidate) => candidate.isRepeatedBy(call));
    if (history) history.extend(call);
    else this.#histories.push(History.begin(call));
    this.#histories.sort((a, b) => a.firstCall - b.firstCall);
    return { isRewritten };
  }

  /** Adds a call of an external model. */
  addExternal({ promptTokens, sampledTokens, ...call }: ExternalCall): void {
    const reply = sampledMessage(call.choice, { tokenIds: false });
    this.add({ ...call, promptTokenIds: [], external: { reply, sampledTokens } }, promptTokens);
  }

  /** @throws RangeError for a reward that is not finite, or a call that has not been recorded. */
  reward(reward: number, index: number = largestOf(this.#calls.keys())): void {
    if (!Number.isFinite(reward)) throw new RangeError(`A step reward is ${reward}. Pass a finite number.`);
    const call = this.#calls.get(index);
    if (!call)
      throw new RangeError(`Call ${index} of the rollout has not been recorded; it cannot have a reward.`);
    call.reward = (call.reward ?? 0) + reward;
  }

  /** The sum of the step rewards of all calls; undefined if there are none. */
  get stepReward(): number | undefined {
    const rewards = this.calls.flatMap(({ reward }) => reward ?? []);
    return rewards.length === 0 ? undefined : rewards.reduce((sum, reward) => sum + reward, 0);
  }

  credit(rewards: ReadonlyMap<number, number>): void {
    for (const { index, choice } of this.#calls.values()) {
      const credited = rewards.get(index);
      if (credited !== undefined) choice.credited_reward = credited;
    }
  }

  /** Keeps of each call what figures need: its facts, and the token ids and the credit of its choice. */
  release(): void {
    const lean = new Map<Choice, Choice>();
    for (const [index, call] of this.#calls) {
      const { token_ids, credited_reward, finish_reason, index: at } = call.choice;
      const message = { role: 'assistant', content: null } as const;
      const choice: Choice = { index: at, message, finish_reason, token_ids, credited_reward };
      lean.set(call.choice, choice);
      this.#calls.set(index, { ...call, choice, messages: [], tools: undefined, promptTokenIds: [] });
    }
    for (const history of this.#histories) history.release(lean);
  }

  #count(call: LoggedCall): void {
    this.#calls.set(call.index, call);
    this.promptTokens += call.promptTokens;
    this.sampledTokens += call.external?.sampledTokens ?? call.choice.token_ids?.length ?? 0;
    this.toolCalls += call.choice.message.tool_calls?.length ?? 0;
  }
}
