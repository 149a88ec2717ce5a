import { largestOf } from '../util/extremes.ts';
import { sumOf } from '../util/sums.ts';
import { History } from './history.ts';
import type { RecordedCall } from './recorded-call.ts';
import { describeReplies, type Replies } from './replies.ts';

const released = { role: 'assistant', content: null } as const;

/** The answered calls of one rollout, their histories and their step rewards. */
export class CallLog {
  readonly #histories: History[];
  readonly #calls = new Map<number, RecordedCall>();
  /** Known once their tokens have gone. */
  #replies: Replies | undefined;
  sampledTokens = 0;
  promptTokens = 0;
  /** Number of tool calls in the choices. */
  toolCalls = 0;

  /** With histories, restores calls read from disk. */
  constructor(histories: readonly History[] = []) {
    this.#histories = [...histories];
    for (const call of histories.flatMap(({ calls }) => calls)) this.#count(call);
  }

  /** Conversations in the order in which their first calls began. */
  get histories(): readonly History[] {
    return this.#histories;
  }

  get(index: number): RecordedCall | undefined {
    return this.#calls.get(index);
  }

  /** Ordered by the start of the calls, not by their answers. */
  get calls(): RecordedCall[] {
    return [...this.#calls.values()].sort((a, b) => a.index - b.index);
  }

  /**
   * Adds a call to the history that it extends, or starts a new history. Returns whether the new one repeats the
   * messages of another, so that the chat template has rewritten them.
   */
  add(call: RecordedCall, promptTokenIds: readonly number[] = []): { isRewritten: boolean } {
    this.#count(call);
    const history = this.#histories.find((candidate) => candidate.isExtendedBy(call, promptTokenIds));
    const isRewritten = !history && this.#histories.some((candidate) => candidate.isRepeatedBy(call));
    if (history) history.extend(call, promptTokenIds);
    else this.#histories.push(History.begin(call, promptTokenIds));
    this.#histories.sort((a, b) => a.firstCall - b.firstCall);
    return { isRewritten };
  }

  /** @throws RangeError for a reward that is not finite, or a call that has not been recorded. */
  reward(reward: number, index: number = largestOf(this.#calls.keys())): void {
    if (!Number.isFinite(reward)) throw new RangeError(`A step reward is ${reward}. Pass a finite number.`);
    const call = this.#calls.get(index);
    if (this.#calls.size === 0)
      throw new RangeError(
        'The rollout has recorded no call yet that could have a reward. Call the model first.',
      );
    if (!call)
      throw new RangeError(`Call ${index} of the rollout has not been recorded; it cannot have a reward.`);
    call.reward = (call.reward ?? 0) + reward;
  }

  /** The sum of the step rewards of all calls; undefined if there are none. */
  get stepReward(): number | undefined {
    const rewards = this.calls.flatMap(({ reward }) => reward ?? []);
    return rewards.length === 0 ? undefined : sumOf(rewards);
  }

  credit(rewards: ReadonlyMap<number, number>): void {
    for (const { index, choice } of this.#calls.values()) {
      const credited = rewards.get(index);
      if (credited !== undefined) choice.credited_reward = credited;
    }
  }

  /** Facts of the replies. */
  get replies(): Replies {
    return this.#replies ?? describeReplies(this.calls.map(({ choice }) => choice.token_ids ?? []));
  }

  /** Keeps of each call its facts and the credit of its choice; with `keepsTexts` its texts and token ids too. */
  release(keepsTexts: boolean): void {
    if (!keepsTexts) this.#replies = this.replies;
    for (const call of this.#calls.values()) {
      const { message, token_ids, credited_reward, finish_reason, index } = call.choice;
      const kept = { index, finish_reason, credited_reward };
      call.choice = keepsTexts ? { ...kept, message, token_ids } : { ...kept, message: released };
    }
    for (const history of this.#histories) history.release(keepsTexts);
  }

  #count(call: RecordedCall): void {
    this.#calls.set(call.index, call);
    this.promptTokens += call.promptTokens;
    this.sampledTokens += call.external?.sampledTokens ?? call.choice.token_ids?.length ?? 0;
    this.toolCalls += call.choice.message.tool_calls?.length ?? 0;
  }
}
