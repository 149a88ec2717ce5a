import type { Choice } from '../contract/index.ts';
import { readableMessage, type TrajectoryRecord } from '../trajectory/index.ts';
import { sumOf } from '../util/sums.ts';
import type { HistoryDetail, SampledReply, TokenRow, ToolUse, TurnView } from './api.ts';
import { conversationsOf } from './group-file.ts';

type HistoryRecord = ReturnType<typeof conversationsOf>[number];
type CallRecord = TrajectoryRecord['record']['calls'][number];

/** The turns of the main conversation. */
export const mainTurns = (trajectory: TrajectoryRecord): TurnView[] =>
  turnsOf(trajectory, callsOf(trajectory, 0), trajectory.record.policy);

const callsOf = (trajectory: TrajectoryRecord, history: number): Map<number, CallRecord> =>
  new Map(
    trajectory.record.calls.flatMap((call) =>
      call.history === history ? [[call.entry, call] as const] : [],
    ),
  );

/** What decides whether and how the choices of a rollout train. */
export interface Credit {
  /** Advantages of the choices, over all conversations in order; null if the rollout does not train. */
  advantages: readonly number[] | null;
  /** Why the rollout does not train. */
  why: string | null;
  /** What the job found of the tokens, by the choice's number over all conversations. */
  trained: ReadonlyMap<number, TrainedChoice>;
}

/** What the job found of the tokens of a choice. */
interface TrainedChoice {
  logprobs: readonly (number | null)[];
  /** Indices of the tokens whose loss was clipped. */
  clipped: readonly number[];
}

/** All conversations of a rollout, with their tokens. */
export function historiesOf(
  trajectory: TrajectoryRecord,
  { advantages, why, trained }: Credit,
): HistoryDetail[] {
  let at = 0;
  return conversationsOf(trajectory).map((conversation, history) => {
    const calls = callsOf(trajectory, history);
    const replies = conversation.messages_and_choices.flatMap((entry, position): SampledReply[] => {
      if (!('message' in entry)) return [];
      const number = at++;
      const advantage = advantages?.[number] ?? null;
      const found = trained.get(number);
      return [toReply(entry, { call: calls.get(position), advantage, why, found })];
    });
    const tools = (conversation.tools ?? []).map((tool) => tool.function.name);
    return { turns: turnsOf(conversation, calls, trajectory.record.policy), tools, replies };
  });
}

function turnsOf(
  { messages_and_choices: entries }: HistoryRecord,
  calls: ReadonlyMap<number, CallRecord>,
  policy: string | null,
): TurnView[] {
  const toolNames = new Map<string, string>();
  return entries.map((entry, at): TurnView => {
    const call = calls.get(at);
    const { role, text, reasoning, toolCalls } = readableMessage(entry);
    for (const { id, function: called } of toolCalls) toolNames.set(id, called.name);
    return {
      role,
      text,
      ...(reasoning ? { reasoning } : {}),
      ...(toolCalls.length > 0 ? { tools: toolCalls.map(toUse) } : {}),
      ...('message' in entry ? sampledFields(entry) : {}),
      ...('message' in entry || entry.role !== 'tool'
        ? {}
        : { tool: toolNames.get(entry.tool_call_id ?? '') }),
      ...(call ? { call: call.index } : {}),
      ...(call?.spoken ? { tokens: call.spoken.sampled_tokens } : {}),
      ...(call?.reward === undefined ? {} : { reward: call.reward }),
      ...(call?.model === undefined || call.model === policy ? {} : { model: call.model }),
    };
  });
}

const sampledFields = ({ token_ids: ids, finish_reason: finish }: Choice) => ({
  ...(ids ? { tokens: ids.length } : {}),
  finish,
});

const toUse = (call: { id?: string; function: { name: string; arguments: string } }): ToolUse => ({
  ...(call.id === undefined ? {} : { id: call.id }),
  name: call.function.name,
  arguments: call.function.arguments,
});

function toReply(
  choice: Choice,
  {
    call,
    advantage,
    why,
    found,
  }: {
    call: CallRecord | undefined;
    advantage: number | null;
    why: string | null;
    found: TrainedChoice | undefined;
  },
): SampledReply {
  const tokens = tokensOf(choice, found);
  const reason =
    why ?? (tokens.length === 0 ? 'it has no token ids' : advantage === 0 ? 'its advantage is 0' : null);
  return {
    call: call?.index ?? 0,
    advantage,
    trains: reason === null,
    why: reason,
    temperature: choice.sampling?.temperature ?? null,
    constraint: choice.sampling?.constraint == null ? null : 'a grammar or choice held it',
    promptTokens: call?.prompt_tokens ?? 0,
    tokens,
  };
}

function tokensOf(choice: Choice, found: TrainedChoice | undefined): TokenRow[] {
  const { token_ids: ids, logprobs, token_logprobs, token_texts } = choice;
  const clipped = new Set(found?.clipped);
  const entries = logprobs?.content ?? [];
  return (ids ?? []).map((id, at) => {
    const entry = entries[at];
    const others = entry?.top_logprobs ?? [];
    return {
      id,
      text: entry?.token ?? token_texts?.[at] ?? '',
      logprob: entry?.logprob ?? token_logprobs?.[at] ?? null,
      entropy: others.length > 1 ? entropyOf(others.map(({ logprob }) => logprob)) : null,
      trainedLogprob: found?.logprobs[at] ?? null,
      clipped: clipped.has(at),
    };
  });
}

/** Of the reported alternatives, in nats; what they leave counts as one more. */
function entropyOf(logprobs: readonly number[]): number {
  const shares = logprobs.map(Math.exp);
  const rest = Math.max(0, 1 - sumOf(shares));
  return [...shares, rest].reduce((sum, share) => (share > 0 ? sum - share * Math.log(share) : sum), 0);
}
