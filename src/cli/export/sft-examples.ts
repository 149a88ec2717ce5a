import type { Choice, Message, SftExample } from '../../contract/index.ts';
import type { GroupRecord } from '../../rollout/index.ts';

/**
 * The best rollouts as examples for supervised training: of each scenario the one with the highest reward, if that is at
 * least `minReward`; no conversation twice. Only main conversations that end with a reply. With seats: the best of each
 * seat that the model of the run played.
 */
export class SftExamples {
  readonly #minReward: number;
  readonly #best = new Map<string, { reward: number; example: SftExample }>();

  constructor({ minReward }: { minReward: number }) {
    this.#minReward = minReward;
  }

  add({ scenario, trajectories, seat }: GroupRecord): void {
    if (seat && !seat.isPolicy) return;
    const key = JSON.stringify([scenario, seat?.name]);
    for (const { reward, messages_and_choices: entries, tools, record } of trajectories) {
      if (reward === undefined || reward < this.#minReward || record.externalModel !== undefined) continue;
      if (reward <= (this.#best.get(key)?.reward ?? Number.NEGATIVE_INFINITY)) continue;
      const messages = entries.map(messageOf);
      const last = messages.at(-1);
      if (last?.role !== 'assistant' || (!last.content && !last.tool_calls?.length)) continue;
      this.#best.set(key, { reward, example: { messages, ...(tools?.length ? { tools } : {}) } });
    }
  }

  /** The examples, without duplicates. */
  get lines(): string[] {
    return [...new Set([...this.#best.values()].map(({ example }) => JSON.stringify(example)))];
  }
}

/** A reply becomes a message, without its tokens: they are made anew for training. */
function messageOf(entry: Message | Choice): Message {
  if (!('message' in entry)) {
    if (entry.role !== 'assistant') return entry;
    const { token_ids: _, ...message } = { token_ids: undefined, ...entry };
    return message;
  }
  const { content, reasoning, reasoning_content, tool_calls } = entry.message;
  return {
    role: 'assistant',
    content: content ?? null,
    ...(reasoning_content || reasoning ? { reasoning_content: reasoning_content || reasoning } : {}),
    ...(tool_calls?.length ? { tool_calls } : {}),
  };
}
