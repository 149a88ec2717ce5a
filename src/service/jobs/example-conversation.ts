import { type ParsedSftExample, trainedMessages } from '../../contract/index.ts';
import type { BaseModel } from '../../engines/engine.ts';
import {
  type Channels,
  type ChatFormat,
  type Turn,
  type TurnToolCall,
  toTurn,
} from '../../language/basics.ts';
import { type Constraint, type Reply, writtenCalls, writtenChannels } from '../../language/index.ts';
import { plainSampling } from '../../learning/index.ts';
import { invalidField } from '../errors.ts';
import type { Constraints } from '../inference/constraints.ts';
import { refuseForeignTokens } from '../inference/model-checks.ts';
import { reorderJson } from './schema-order.ts';
import type { TrainingConversation } from './sequences.ts';

/** What is needed to read the lines of a job. */
interface ExampleContext {
  base: BaseModel;
  format: ChatFormat;
  constraints: Constraints;
  /** Which assistant messages train, of those that the line does not make context. */
  trained: 'all' | 'last';
}

/**
 * Turns a line of training data into a conversation, up to the last message that trains: later ones change no loss, but
 * templates write a reply before them in another way. One constraint applies to all assistant messages that train.
 */
export async function exampleConversation(
  example: ParsedSftExample,
  { number }: { number: number },
  { base, format, constraints, trained }: ExampleContext,
): Promise<TrainingConversation> {
  const all = example.messages.map((message, index) =>
    toTurn(message, [`line ${number}`, 'messages', index]),
  );
  const training = trainedMessages(example, trained);
  const turns = all.slice(0, (training.at(-1) ?? 0) + 1);
  const trains = new Set(training);
  for (const [index, turn] of all.entries()) {
    const { name, tokenIds } = turn;
    const at = [`line ${number}`, 'messages', index];
    refuseForeignTokens(tokenIds, base.vocabularySize, [...at, 'token_ids']);
    if (trains.has(index) && name !== undefined)
      throw invalidField(
        [...at, 'name'],
        'replies are sampled and trained without a name; leave it out',
        name,
      );
  }
  // Reasoning in a channel needs no constraint.
  const reasons = !format.channels && turns.some(({ reasoning }) => reasoning);
  const reasoningEffort = example.reasoning_effort ?? (reasons ? 'high' : undefined);
  const checked = await constraints.check(base, { ...example, reasoning_effort: reasoningEffort });
  return {
    turns,
    tools: example.tools,
    location: [`line ${number}`],
    sampled: turns.map((_, index) =>
      trains.has(index)
        ? { logprobs: [], sampling: plainSampling, constraint: checked?.constraint ?? null }
        : null,
    ),
    reasoningEffort: reasoningEffort === 'none' ? undefined : reasoningEffort,
  };
}

/** An assistant message as it would have been sampled: with its JSON in the key order of the constraint. */
export function toReply(
  turn: Turn,
  constraint: Constraint | null,
  format: Pick<ChatFormat, 'calls' | 'reasoning' | 'channels' | 'endToken'>,
): Reply {
  if (format.channels) return channelReply(turn, format.channels, format.endToken);
  const { reasoning, content, toolCalls } = turn;
  const { calls, reasoning: tags } = format;
  const [first] = toolCalls;
  if (first && !calls)
    throw invalidField(['messages'], 'have tool calls, which this model cannot make', first.name);
  const made = toolCalls.map((call) => ({ ...call, arguments: argumentsAsWritten(call, constraint) }));
  const parts = [
    ...reasoningAsWritten(reasoning ?? '', constraint, tags),
    contentAsWritten(content, constraint),
    ...(calls && made.length > 0 ? writtenCalls(calls, made, { afterText: content !== '' }) : []),
  ];
  return { parts: parts.filter((part) => part !== ''), constraint };
}

/** Channels are not constrained, so the reply stays as it is. */
function channelReply(turn: Turn, channels: Channels, endToken: number): Reply {
  if (turn.toolCalls.length > 1)
    throw invalidField(
      ['messages'],
      `have ${turn.toolCalls.length} tool calls in one reply, and a reply of this model ends with its first; put each into a message of its own, before its result`,
      turn.toolCalls.map(({ name }) => name),
    );
  const written = writtenChannels(turn, channels, endToken);
  return {
    parts: written.slice(0, -1),
    constraint: null,
    end: turn.toolCalls.length > 0 ? channels.call : endToken,
  };
}

function reasoningAsWritten(
  text: string,
  constraint: Constraint | null,
  tags: ChatFormat['reasoning'],
): Reply['parts'] {
  const thought = constraint?.reasoning;
  if (!thought) return [];
  // As templates write it, each tag on a line of its own.
  const lines = `${text.replace(/^\n+|\n+$/g, '')}\n`;
  return [thought.before + lines, tags?.tokens?.close ?? thought.close, thought.after];
}

function contentAsWritten(content: string, constraint: Constraint | null): string {
  const own = constraint?.grammar;
  const grammar = own?.type === 'text_or_calls' ? own.content : own;
  // Requested white space is trained too, so the text must stay as it is.
  return grammar?.type === 'json_schema' && grammar.whitespace === undefined
    ? reorderJson(content, grammar.schema)
    : content;
}

function argumentsAsWritten({ name, arguments: text }: TurnToolCall, constraint: Constraint | null): string {
  const own = constraint?.grammar;
  const grammar = own?.type === 'text_or_calls' ? own.calls : own;
  const called = grammar?.type === 'named_json' && grammar.alternatives.find((tool) => tool.name === name);
  return called ? reorderJson(text, called.schema) : text;
}
