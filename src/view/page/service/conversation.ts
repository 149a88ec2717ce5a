import type { ChatMessage, ServiceReply, TurnView } from '../../api.ts';

/** A model's part of a turn: what it said, and what its tools returned, in order. */
export interface ChatAnswer {
  said: readonly (ServiceReply | ToolResults)[];
  /** Why there is no further reply; null if there may be one. */
  problem: string | null;
  /** Whether a reply is awaited. */
  isAwaited: boolean;
}

/** What the tools of the reply before returned, in the order of its calls. */
interface ToolResults {
  results: readonly string[];
}

/** The user's message, and the answers of both sides. */
export interface Turn {
  question: string;
  answers: readonly [ChatAnswer, ChatAnswer];
}

export const unanswered: ChatAnswer = { said: [], problem: null, isAwaited: false };

type Call = NonNullable<ServiceReply['message']['tool_calls']>[number];

/** The calls of the last reply, whose results are to be typed in; none otherwise. */
export function openCalls({ said, isAwaited }: ChatAnswer): readonly Call[] {
  const last = said.at(-1);
  return !isAwaited && last && 'message' in last ? (last.message.tool_calls ?? []) : [];
}

/** The messages of an answer, for the next request. */
export function messagesOf({ said }: ChatAnswer): ChatMessage[] {
  return said.flatMap((one, at): ChatMessage[] => {
    if ('message' in one) return [one.message];
    const before = said[at - 1];
    const calls = before && 'message' in before ? (before.message.tool_calls ?? []) : [];
    return calls.map(({ id }, call) => ({
      role: 'tool',
      tool_call_id: id,
      content: one.results[call] ?? '',
    }));
  });
}

/** The messages of one side so far. A question is left out if its answer failed or its tools never returned. */
export const historyOf = (turns: readonly Turn[], side: 0 | 1): ChatMessage[] =>
  turns.flatMap(({ question, answers }): ChatMessage[] => {
    const answer = answers[side];
    if (answer.said.length === 0 || answer.problem !== null || openCalls(answer).length > 0) return [];
    return [{ role: 'user', content: question }, ...messagesOf(answer)];
  });

/** An answer as the turns of a conversation. */
export function turnsOf({ said }: ChatAnswer): TurnView[] {
  return said.flatMap((one, at): TurnView[] => {
    if ('message' in one) {
      const { message, reasoning, sampledTokens, finish } = one;
      const tools = message.tool_calls?.map(({ id, function: called }) => ({ id, ...called }));
      return [
        {
          role: 'assistant',
          text: message.content ?? '',
          ...(reasoning ? { reasoning } : {}),
          ...(tools ? { tools } : {}),
          tokens: sampledTokens,
          finish,
        },
      ];
    }
    const before = said[at - 1];
    const calls = before && 'message' in before ? (before.message.tool_calls ?? []) : [];
    return calls.map(({ function: { name } }, call) => ({
      role: 'tool',
      tool: name,
      text: one.results[call] ?? '',
    }));
  });
}

/** The turns with another answer of one side. */
export const withAnswer = (
  turns: readonly Turn[],
  { at, side }: { at: number; side: 0 | 1 },
  change: (answer: ChatAnswer) => ChatAnswer,
): readonly Turn[] =>
  turns.map((turn, index) => {
    if (index !== at) return turn;
    const [left, right] = turn.answers;
    return { ...turn, answers: side === 0 ? [change(left), right] : [left, change(right)] };
  });
