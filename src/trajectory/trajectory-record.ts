import { type Choice, type Message, type Tool, textOf } from '../contract/index.ts';
import { append } from '../util/extremes.ts';
import { CallLog } from './call-log.ts';
import { History, type HistoryBody, isSameTools } from './history.ts';
import { Observations, type ObservationsRecord } from './observations.ts';
import { type AskedForm, type CallTimes, type RecordedCall, sampledMessage } from './recorded-call.ts';
import { Trajectory } from './trajectory.ts';
import { type UnexpectedCallReason, unexpectedCall, unexpectedReasons } from './trajectory-error.ts';
import type { UnrewardedTrajectory } from './trajectory-options.ts';

type Entry = Message | Choice;

/**
 * The messages of a call, stored as differences from its history. The history holds earlier replies as choices, so
 * their tokens are written once.
 */
interface SentMessages {
  /** True if the earlier replies were sent as text, without their sampled token ids. */
  as_text?: boolean;
  /** Sent messages that differ from the history, by position. */
  messages?: Record<string, Message>;
}

/** A call, stored as the position of its choice. The conversation holds its messages and tokens. */
interface CallRecord extends SentMessages {
  index: number;
  /** Index of the conversation: 0 is the main one, then the additional ones. */
  history: number;
  /** Position of the choice in that conversation. */
  entry: number;
  /** Name of the model that answered; absent if it is the trajectory's policy. */
  model?: string;
  prompt_tokens: number;
  /** Only for an external model, whose reply is a message: the facts that the message does not hold. */
  spoken?: { sampled_tokens: number; finish_reason: Choice['finish_reason'] };
  /** Sum of the call's step rewards; absent if it has none. */
  reward?: number;
  /** Absent if the same as the conversation's; null for no tools. */
  tools?: Tool[] | null;
  /** Begun, sent and answered, from the start of the rollout; absent if not known. */
  milliseconds?: CallTimes;
}

/**
 * A trajectory on disk, as plain JSON: the body used for training, plus `record`, which only the harness reads.
 * `reward` is absent if the rollout has none. Of the choices of a conversation only the last has `prompt_token_ids`: the
 * prompts of the others are its beginning.
 */
export interface TrajectoryRecord extends UnrewardedTrajectory {
  reward?: number;
  record: {
    id: string;
    policy: string | null;
    seed: number;
    /** Model calls that began. Failed and left-out calls are in no history. */
    turns: number;
    milliseconds: number;
    calls: CallRecord[];
    stop_reason: string | null;
    /** The form that the first call asked its reply to have; absent if that was free. */
    asked_form?: AskedForm;
    /** The trajectory's own metadata; present only if it has its own `stop_reason`. */
    metadata?: Trajectory['metadata'];
    /** Indexes of calls whose prompts were longer than the model's context; absent if there are none. */
    refused_calls?: readonly number[];
    /** Name of the external model whose replies are in the conversations, as messages. */
    externalModel?: string;
    /** Absent if there are none. */
    observations?: ObservationsRecord;
    violation?: { reason: UnexpectedCallReason; message: string };
  };
}

/** The record of a trajectory. It shares objects with the trajectory, so write it before they change. */
export function toTrajectoryRecord(trajectory: Trajectory): TrajectoryRecord {
  const { id, policy = null, seed, usage, stopReason, metadata, reward } = trajectory;
  const { violation, externalModel, observations: observed } = trajectory;
  const observations = observed.toRecord();
  const askedForm = trajectory.log.calls[0]?.askedForm;
  return {
    ...trajectory.toRecord(),
    ...(reward === null ? {} : { reward }),
    record: {
      id,
      policy,
      seed,
      turns: usage.turns,
      milliseconds: usage.milliseconds,
      calls: callRecords(trajectory),
      stop_reason: stopReason,
      ...(askedForm ? { asked_form: askedForm } : {}),
      ...(stopReason !== null && 'stop_reason' in metadata ? { metadata } : {}),
      ...(observed.refusedCalls.length > 0 ? { refused_calls: [...observed.refusedCalls] } : {}),
      ...(externalModel === undefined ? {} : { externalModel }),
      ...(observations ? { observations } : {}),
      ...(violation
        ? { violation: { reason: unexpectedReasons[violation.code], message: violation.message } }
        : {}),
    },
  };
}

/** Restores a trajectory from its record, closed. Its body is the same to the byte. */
export function fromTrajectoryRecord(record: TrajectoryRecord): Trajectory {
  const { id, policy, seed, turns, milliseconds, violation, externalModel } = record.record;
  const conversations = [record, ...(record.additional_histories ?? [])];
  const calls = conversations.map((): RecordedCall[] => []);
  for (const [at, call] of record.record.calls.entries()) {
    const read = readCall(call, conversations, policy ?? '');
    calls[call.history]?.push(at === 0 ? { ...read, askedForm: record.record.asked_form } : read);
  }
  const histories = conversations.flatMap((conversation, at) => {
    const own = (calls[at] ?? []).sort((a, b) => a.messages.length - b.messages.length);
    return own.length > 0 ? [History.restore(own, conversation)] : [];
  });
  const startTime = record.start_time ? new Date(record.start_time) : new Date(0);
  const trajectory = Trajectory.restore(
    { id, seed, startTime, ...(policy === null ? {} : { policy }) },
    {
      log: new CallLog(histories),
      observations: new Observations(record.record.observations, record.record.refused_calls),
      turns,
      milliseconds,
      violation: violation && unexpectedCall(violation.reason, violation.message),
      externalModel,
    },
  );
  Object.assign(trajectory.metrics, record.metrics);
  Object.assign(trajectory.metadata, ownMetadata(record));
  append(trajectory.logs, record.logs ?? []);
  trajectory.stopReason = record.record.stop_reason;
  trajectory.reward = record.reward ?? null;
  return trajectory;
}

const callRecords = ({ histories, policy }: Trajectory): CallRecord[] =>
  histories
    .flatMap((history, at) => history.calls.map((call) => callRecord(call, history, at, policy)))
    .sort((a, b) => a.index - b.index);

function callRecord(
  call: RecordedCall,
  { entries, tools: ofHistory }: History,
  history: number,
  policy: string | undefined,
): CallRecord {
  const { index, model, tools, messages, choice, external, promptTokens, reward, times } = call;
  return {
    index,
    history,
    entry: messages.length,
    ...(model === policy ? {} : { model }),
    prompt_tokens: promptTokens,
    ...(external
      ? { spoken: { sampled_tokens: external.sampledTokens, finish_reason: choice.finish_reason } }
      : {}),
    ...(reward === undefined ? {} : { reward }),
    ...(times ? { milliseconds: times } : {}),
    ...(isSameTools(tools, ofHistory) ? {} : { tools: tools ?? null }),
    ...packSentMessages(messages, entries),
  };
}

function readCall(call: CallRecord, conversations: readonly HistoryBody[], policy: string): RecordedCall {
  const { index, history, entry, model = policy, milliseconds: times } = call;
  const conversation = conversations[history];
  const answer = conversation && readChoice(call, conversation);
  if (!answer)
    throw new RangeError(
      `Call ${index} refers to entry ${entry} of history ${history}, which is not a choice.`,
    );
  return {
    index,
    messages: unpackSentMessages(call, conversation.messages_and_choices.slice(0, entry)),
    tools: call.tools === undefined ? conversation.tools : (call.tools ?? undefined),
    model,
    ...answer,
    promptTokens: call.prompt_tokens,
    reward: call.reward,
    ...(times ? { times } : {}),
  };
}

function readChoice(
  { entry, spoken }: CallRecord,
  { messages_and_choices }: HistoryBody,
): Pick<RecordedCall, 'choice' | 'external'> | undefined {
  const reply = messages_and_choices[entry];
  if (!reply) return undefined;
  if ('message' in reply) return { choice: reply };
  if (!spoken || reply.role !== 'assistant') return undefined;
  const { content, reasoning_content, tool_calls } = reply;
  const message: Choice['message'] = {
    role: 'assistant',
    content: content == null ? null : textOf(content),
    ...(reasoning_content ? { reasoning_content } : {}),
    ...(tool_calls?.length ? { tool_calls } : {}),
  };
  return {
    choice: { index: 0, message, finish_reason: spoken.finish_reason },
    external: { reply, sampledTokens: spoken.sampled_tokens },
  };
}

/** The metadata without the `stop_reason` that the body adds. */
function ownMetadata({ metadata, record }: TrajectoryRecord): TrajectoryRecord['metadata'] {
  if (record.metadata) return record.metadata;
  if (record.stop_reason === null) return metadata;
  const { stop_reason: _, ...own } = metadata ?? {};
  return own;
}

/** `entries` is the history. */
function packSentMessages(sent: readonly Message[], entries: readonly Entry[]): SentMessages {
  const withIds = differences(sent, entries, true);
  if (withIds.length === 0) return {};
  const asText = differences(sent, entries, false);
  const shorter = asText.length < withIds.length ? asText : withIds;
  return {
    ...(shorter === asText ? { as_text: true } : {}),
    ...(shorter.length > 0 ? { messages: Object.fromEntries(shorter) } : {}),
  };
}

/** The inverse of `packSentMessages`. */
function unpackSentMessages(
  { as_text: asText = false, messages = {} }: SentMessages,
  entries: readonly Entry[],
): Message[] {
  return entries.map((entry, at) => messages[at] ?? asMessage(entry, !asText));
}

function differences(
  sent: readonly Message[],
  entries: readonly Entry[],
  tokenIds: boolean,
): [number, Message][] {
  return sent.flatMap((message, at): [number, Message][] => {
    const entry = entries[at];
    const isSame = message === entry || (entry && isSerializedAlike(message, asMessage(entry, tokenIds)));
    return isSame ? [] : [[at, message]];
  });
}

const asMessage = (entry: Entry, tokenIds: boolean): Message =>
  'message' in entry ? sampledMessage(entry, { tokenIds }) : entry;

/** Compares by reference first: most replies are sent with the same long strings and arrays as their choice. */
function isSerializedAlike(a: Message, b: Message): boolean {
  const fields = Object.entries(a);
  const isSame =
    fields.length === Object.keys(b).length &&
    fields.every(([name, value]) => Reflect.get(b, name) === value);
  return isSame || JSON.stringify(a) === JSON.stringify(b);
}
