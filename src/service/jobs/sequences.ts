import type { Choice, ParsedTrajectory } from '../../contract/index.ts';
import type { BaseModel, SamplingParameters } from '../../engines/engine.ts';
import {
  type ChatFormat,
  type Conversation,
  choiceToTurn,
  LanguageError,
  type Location,
  tokenIdsHash,
  toTurn,
} from '../../language/basics.ts';
import type { Constraint } from '../../language/index.ts';
import type { SampledSequence } from '../../learning/index.ts';
import { append } from '../../util/extremes.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { invalidField, ServiceError } from '../errors.ts';
import type { KnownConstraints } from '../inference/constraints.ts';
import type { BaseModelTools } from '../inference/resolve-model.ts';
import { fromSampling } from '../inference/sampling.ts';
import { findConstraint, logprobsOf } from './choices.ts';
import { entriesOf, historiesOf, type ParsedHistory, type Prompt, tokensOf } from './whole-choices.ts';

/** How a turn that trains was sampled. */
interface Sampled<Found = Constraint> {
  logprobs: (number | null)[];
  sampling: SamplingParameters;
  constraint: Found | null;
  /** The choice's credit; absent or null: its trajectory's reward applies. */
  credit?: number | null;
  /** Number of the choice in its trajectory, from 0. Absent in supervised training. */
  choice?: number;
}

export interface TrainingConversation<Found = Constraint> extends Conversation {
  /** For each turn how it was sampled, or null when it is context. */
  sampled: (Sampled<Found> | null)[];
  /** Passed to the chat template, if set. */
  reasoningEffort?: string | undefined;
  /** Whether a turn trains after these tokens; if not, it is context. Absent: it does. */
  trainsAfter?: (turn: number, prefix: Prompt) => boolean;
}

/**
 * Renders a conversation as one sequence of tokens with the sampled ids unchanged. The sequence ends with the last of
 * them, since later tokens do not train. A sampled end token is part of its span, although the template writes it.
 */
export async function toSequence<Found>(
  conversation: TrainingConversation<Found>,
  { renderer, format }: Pick<BaseModelTools, 'renderer' | 'format'>,
  contextLength: number,
): Promise<SampledSequence<Found>> {
  const { turns, sampled, reasoningEffort, trainsAfter } = conversation;
  const options = { addGenerationPrompt: false, reasoningEffort, contextLength };
  const { tokens, splices } = await renderer.render(conversation, options).catch((cause: unknown) => {
    if (!(cause instanceof LanguageError) || cause.issue) throw cause;
    throw new LanguageError(cause.code, `${conversation.location.join('.')}: ${cause.message}`, { cause });
  });
  const spans: SampledSequence<Found>['spans'] = [];
  let next = 0;
  for (const [index, turn] of turns.entries()) {
    if (!turn.tokenIds) continue;
    const splice = splices[next++];
    const sampling = sampled[index];
    if (!sampling) continue;
    if (!splice) {
      // It trains after its own prompt, if that is known.
      if (trainsAfter && !trainsAfter(index, { tokens: [], length: 0 })) continue;
      throw new ServiceError(
        422,
        'chat_template_failed',
        `${conversation.location.join('.')}: the chat template does not write reply ${index} as it was sampled, because other messages follow. Put the prompt_token_ids of its response into the choice, or send it as the last message of a conversation of its own.`,
      );
    }
    if (trainsAfter && !trainsAfter(index, { tokens, length: splice.start })) continue;
    checkSpliced(tokens, splice.start, turn.tokenIds, format, conversation);
    spans.push({ start: splice.start, length: splice.length, ...sampling });
  }
  const last = spans.at(-1);
  const end = last ? last.start + last.length : 0;
  if (end > contextLength)
    throw new ServiceError(
      422,
      'context_length_exceeded',
      `${conversation.location.join('.')}: the conversation has ${end} tokens; the model's context is ${contextLength}.`,
    );
  return { tokens: tokens.slice(0, end), spans };
}

function checkSpliced(
  tokens: readonly number[],
  start: number,
  tokenIds: readonly number[],
  format: ChatFormat,
  conversation: Conversation,
): void {
  const last = tokenIds.length - 1;
  if (tokenIds[last] === format.endToken && tokens[start + last] !== format.endToken)
    throw new ServiceError(
      422,
      'chat_template_failed',
      `${conversation.location.join('.')}: the chat template does not end an assistant message with the end token that was sampled.`,
    );
}

/** Most tokens of prompts that a group has not sent whole and that become sequences of their own. */
export const maxRepeatedTokens = 2 ** 26;

export interface TrajectoryDependencies<Found = Constraint> {
  constraints: KnownConstraints<Found>;
  tools: Pick<BaseModelTools, 'renderer' | 'format'>;
  base: BaseModel;
  /** How many tokens prompts may still repeat that were not sent whole; it shrinks. Absent: none was. */
  room?: { tokens: number };
}

/**
 * Turns a trajectory into token sequences. Each history is one sequence, rendered from its messages with the sampled
 * ids of its choices. A choice whose `prompt_token_ids` differ from the rendered prompt becomes a separate sequence and
 * is context in the history's. Rejects when a choice was sampled after another prompt and has no `prompt_token_ids`.
 */
export async function trajectorySequences<Found>(
  trajectory: ParsedTrajectory,
  location: Location,
  dependencies: TrajectoryDependencies<Found>,
): Promise<SampledSequence<Found>[]> {
  const sequences: SampledSequence<Found>[] = [];
  let before = 0;
  for (const { history, path } of historiesOf(trajectory, location)) {
    append(sequences, await historySequences(history, path, dependencies, before));
    before += history.messages_and_choices.filter((item) => 'message' in item).length;
  }
  return sequences;
}

async function historySequences<Found>(
  history: ParsedHistory,
  location: Location,
  { constraints, tools, base, room }: TrajectoryDependencies<Found>,
  choicesBefore: number,
): Promise<SampledSequence<Found>[]> {
  const conversation: TrainingConversation<Found> = {
    turns: [],
    tools: history.tools,
    location,
    sampled: [],
  };
  /** For each turn its choice with its prompt, or null for a message. */
  const choices: ({ choice: Choice; prompt: Prompt | null; at: Location } | null)[] = [];
  let number = choicesBefore;
  const own: SampledSequence<Found>[] = [];
  const addOwn = (choice: Choice, prompt: Prompt, sampled: Sampled<Found>, at: Location) => {
    if (room && choice.added_prompt_token_ids) {
      room.tokens -= prompt.length;
      if (room.tokens < 0)
        throw invalidField(
          [...at, 'added_prompt_token_ids'],
          `gives a prompt that the messages do not render to, and such prompts of a group have more than ${maxRepeatedTokens} tokens together; send fewer trajectories in one group`,
          choice.added_prompt_token_ids,
        );
    }
    own.push(ownSequence(prompt, choice.token_ids ?? [], sampled));
  };
  const slices = new TimeSlices();
  for (const { item, at, prompt } of entriesOf(history, location)) {
    if (slices.over) await slices.pause();
    if (!('message' in item)) {
      conversation.turns.push(toTurn(item, at));
      conversation.sampled.push(null);
      choices.push(null);
      continue;
    }
    choices.push({ choice: item, prompt, at });
    const turn = choiceToTurn(item, at);
    conversation.turns.push(turn);
    const sampled = { ...(await toSampled(item, turn.tokenIds ?? [], at, constraints)), choice: number++ };
    const hasOwnPrompt = prompt && item.sampling?.own_prompt;
    if (hasOwnPrompt) addOwn(item, prompt, sampled, at);
    conversation.sampled.push(hasOwnPrompt ? null : sampled);
  }
  conversation.trainsAfter = (index, prefix) => {
    const one = choices[index];
    const sampled = conversation.sampled[index];
    if (!one || !sampled) return true;
    const { choice, prompt, at } = one;
    if (!prompt) checkPrefix(choice, prefix, at);
    if (!prompt || equal(prompt, prefix)) return true;
    addOwn(choice, prompt, sampled, at);
    return false;
  };
  if (conversation.sampled.every((sampled) => sampled === null)) return own;
  const shared = await toSequence(conversation, tools, base.contextLength);
  return shared.spans.length > 0 ? [shared, ...own] : own;
}

/** Refuses a choice that was sampled after another prompt: its log-probabilities would not fit. */
function checkPrefix({ sampling }: Choice, prefix: Prompt, at: Location): void {
  if (!sampling?.prompt || sampling.prompt === tokenIdsHash(tokensOf(prefix))) return;
  throw invalidField(
    at,
    'was not sampled after the messages and tools before it; send the messages, tools and token_ids of earlier replies unchanged, or put the prompt_token_ids of its response into the choice',
    sampling.prompt,
  );
}

function equal(one: Prompt, other: Prompt): boolean {
  if (one.length !== other.length) return false;
  for (let at = 0; at < one.length; at++) if (one.tokens[at] !== other.tokens[at]) return false;
  return true;
}

function ownSequence<Found>(
  prompt: Prompt,
  reply: readonly number[],
  sampled: Sampled<Found>,
): SampledSequence<Found> {
  const tokens = tokensOf(prompt);
  append(tokens, reply);
  return { tokens, spans: [{ start: prompt.length, length: reply.length, ...sampled }] };
}

async function toSampled<Found>(
  choice: Choice,
  reply: readonly number[],
  at: Location,
  constraints: KnownConstraints<Found>,
): Promise<Sampled<Found>> {
  return {
    logprobs: [...(logprobsOf(choice) ?? reply.map(() => null))],
    sampling: fromSampling(choice.sampling),
    constraint: await findConstraint(choice, at, constraints),
    credit: choice.credited_reward ?? null,
  };
}
