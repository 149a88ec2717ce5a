import {
  type ChatCompletionRequest,
  type Choice,
  type Message,
  type Tool,
  type ToolCall,
  textOf,
} from '../contract/index.ts';

/** When a call began, got its slot, and was answered, in milliseconds from the start of its rollout. */
export type CallTimes = readonly [begun: number, sent: number, answered: number];

/** The form that a call asked its reply to have, as in its request. */
export type AskedForm = Pick<ChatCompletionRequest, 'response_format' | 'structured_outputs' | 'tool_choice'>;

const formFields = ['response_format', 'structured_outputs', 'tool_choice'] as const;

/** The form that a request asks for; undefined if it leaves the reply free. */
export function askedFormOf(request: ChatCompletionRequest): AskedForm | undefined {
  const asked = formFields.filter((name) => request[name] !== undefined && request[name] !== null);
  return asked.length === 0 ? undefined : Object.fromEntries(asked.map((name) => [name, request[name]]));
}

/** One answered model call, as its trajectory keeps it. */
export interface RecordedCall {
  /** Index of the call in the trajectory. Calls are numbered in the order they began. */
  index: number;
  /** Messages of the request. */
  messages: readonly Message[];
  tools: Tool[] | undefined;
  /** Absent if the reply was free, for a later call of a history, and on disk for all calls but the first. */
  askedForm?: AskedForm | undefined;
  /** After the first call of its history it has `added_prompt_token_ids` in place of `prompt_token_ids`. */
  choice: Choice;
  promptTokens: number;
  /** Name of the model that answered, from the response. */
  model: string;
  /** Only for an external model, whose tokens are unknown: the history holds this message instead of the choice. */
  external?: { reply: Message; sampledTokens: number };
  /** Absent if they are not known. */
  times?: CallTimes | undefined;
  /** Sum of the call's step rewards; absent if it has none. */
  reward?: number | undefined;
}

/** One answered call of the policy, as sent over the wire. */
export interface AnsweredCall extends Omit<RecordedCall, 'promptTokens' | 'external' | 'reward'> {
  /** Token ids of the whole prompt, as rendered by the service. */
  promptTokenIds: readonly number[];
}

/** One answered call of an external model. Its messages are known, its tokens are not. */
export interface ExternalCall extends Omit<RecordedCall, 'external' | 'reward'> {
  /** As counted by the provider; 0 if it returns no count, like `promptTokens`. */
  sampledTokens: number;
}

/** A recorded call, as passed to rewards. */
export interface TrajectoryCall {
  readonly index: number;
  readonly messages: readonly Message[];
  readonly choice: Choice;
  /** Sum of the call's step rewards; 0 if it has none. */
  readonly reward: number;
}

/** A prompt as chat messages. `callIds[i]` is the call that sampled `messages[i]`, if the agent's library sends it. */
export interface PromptMessages {
  messages: Message[];
  callIds: (string | undefined)[];
  /** The agent's protocol may drop reasoning, so a reply without it counts as unedited. Default false. */
  mayDropReasoning?: boolean;
}

type AssistantMessage = Extract<Message, { role: 'assistant' }>;

/** A sampled reply as a message of a later prompt. `tokenIds` adds its token ids, so the text is not tokenized again. */
export function sampledMessage(
  { message, token_ids }: Choice,
  { tokenIds }: { tokenIds: boolean },
): AssistantMessage {
  return {
    role: 'assistant',
    content: message.content,
    ...(message.reasoning ? { reasoning: message.reasoning } : {}),
    ...(message.reasoning_content ? { reasoning_content: message.reasoning_content } : {}),
    ...(message.tool_calls?.length ? { tool_calls: message.tool_calls } : {}),
    ...(tokenIds && token_ids ? { token_ids } : {}),
  };
}

/** An assistant message. The content is null if it has only tool calls. */
export function assistantMessage(
  text: string,
  reasoning: string,
  toolCalls: ToolCall[],
): AssistantMessage & { content: string | null } {
  return {
    role: 'assistant',
    content: text === '' && toolCalls.length > 0 ? null : text,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
  };
}

/**
 * One assistant message for two that follow each other and can be parts of one reply: reasoning, text and tool calls, in
 * this order. Undefined if they cannot be.
 */
export function joinedReply(first: Message, second: Message | undefined): AssistantMessage | undefined {
  if (first.role !== 'assistant' || second?.role !== 'assistant') return undefined;
  const parts = [partsOf(first), partsOf(second)] as const;
  const [end, start] = [parts[0].findLastIndex(isPresent), parts[1].findIndex(isPresent)];
  const inOrder = end >= 0 && (end < start || (end === callsPart && start === callsPart));
  if (!inOrder) return undefined;
  const [[thought, said, calls], [thoughtNext, saidNext, callsNext]] = parts;
  return assistantMessage(said + saidNext, thought + thoughtNext, [...calls, ...callsNext]);
}

const partsOf = (message: MessageFields) =>
  [reasoningOf(message), textOf(message.content), message.tool_calls ?? []] as const;
const callsPart = 2;
const isPresent = ({ length }: { readonly length: number }): boolean => length > 0;

/** Fields shared by replies and assistant messages. */
interface MessageFields {
  content?: Message['content'];
  reasoning?: string | null | undefined;
  reasoning_content?: string | null | undefined;
  tool_calls?: readonly ToolCall[] | null | undefined;
}

/** A key of a message's content: messages with equal keys mean the same, whichever library wrote them. */
export function messageKey(message: Message): string {
  const fields = Object.entries(message)
    .filter(([name, value]) => name !== 'content' && !isEmpty(value))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([plainContent(message.content), fields]);
}

/**
 * A key that a reply shares with the assistant message an agent sends back for it: the text, and the ids and names of
 * its tool calls. Omits arguments, because agent libraries serialize them again and the ids identify the calls. Omits
 * reasoning, because some protocols cannot carry it.
 */
export function replyKey({ content, tool_calls }: MessageFields): string {
  const calls = (tool_calls ?? []).map((call) => [call.id, call.function.name]);
  return JSON.stringify([textOf(content), calls]);
}

/** The reasoning of a message, under either field name; empty if there is none. */
export function reasoningOf({
  reasoning,
  reasoning_content,
}: Pick<MessageFields, 'reasoning' | 'reasoning_content'>): string {
  return reasoning || reasoning_content || '';
}

const isEmpty = (value: unknown): boolean =>
  value === null || value === undefined || value === '' || (Array.isArray(value) && value.length === 0);

/** A single text part equals plain text. Several parts stay separate, because a template may render them separately. */
function plainContent(content: Message['content']): unknown {
  if (!Array.isArray(content)) return content ?? '';
  const [only] = content;
  return content.length === 1 && only?.type === 'text' ? only.text : content;
}
