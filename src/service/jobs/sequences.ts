import type { Choice, ParsedTrajectory } from '../../contract/index.ts';
import type { BaseModel, SamplingParameters } from '../../engines/engine.ts';
import {
  type ChatFormat,
  type Conversation,
  choiceToTurn,
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
import { findConstraint, historiesOf, logprobsOf, type ParsedHistory, wholeChoice } from './choices.ts';

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
  trainsAfter?: (turn: number, prefix: readonly number[]) => boolean;
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
  const { tokens, splices } = await renderer.render(conversation, {
    addGenerationPrompt: false,
    reasoningEffort,
    contextLength,
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
      if (trainsAfter && !trainsAfter(index, [])) continue;
      throw new ServiceError(
        422,
        'chat_template_failed',
        `${conversation.location.join('.')}: the chat template does not write reply ${index} as it was sampled, because other messages follow. Put the prompt_token_ids of its response into the choice, or send it as the last message of a conversation of its own.`,
      );
    }
    if (trainsAfter && !trainsAfter(index, tokens.slice(0, splice.start))) continue;
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

export interface TrajectoryDependencies<Found = Constraint> {
  constraints: KnownConstraints<Found>;
  tools: Pick<BaseModelTools, 'renderer' | 'format'>;
  base: BaseModel;
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
  { constraints, tools, base }: TrajectoryDependencies<Found>,
  choicesBefore: number,
): Promise<SampledSequence<Found>[]> {
  const conversation: TrainingConversation<Found> = {
    turns: [],
    tools: history.tools,
    location,
    sampled: [],
  };
  /** For each turn its choice, or null for a message. */
  const choices: (Choice | null)[] = [];
  let number = choicesBefore;
  const own: SampledSequence<Found>[] = [];
  const slices = new TimeSlices();
  for (const [index, item] of history.messages_and_choices.entries()) {
    if (slices.over) await slices.pause();
    const at = [...location, 'messages_and_choices', index];
    if (!('message' in item)) {
      conversation.turns.push(toTurn(item, at));
      conversation.sampled.push(null);
      choices.push(null);
      continue;
    }
    const choice = wholeChoice(item, at);
    choices.push(choice);
    const turn = choiceToTurn(choice, at);
    conversation.turns.push(turn);
    const sampled = { ...(await toSampled(choice, turn.tokenIds ?? [], at, constraints)), choice: number++ };
    const { prompt_token_ids: prompt } = choice;
    const hasOwnPrompt = prompt && choice.sampling?.own_prompt;
    if (hasOwnPrompt) own.push(ownSequence(prompt, turn.tokenIds ?? [], sampled));
    conversation.sampled.push(hasOwnPrompt ? null : sampled);
  }
  conversation.trainsAfter = (index, prefix) => {
    const choice = choices[index];
    const sampled = conversation.sampled[index];
    if (!choice || !sampled) return true;
    const { prompt_token_ids: prompt } = choice;
    if (!prompt) checkPrefix(choice, prefix, [...location, 'messages_and_choices', index]);
    if (!prompt || equal(prompt, prefix)) return true;
    own.push(ownSequence(prompt, conversation.turns[index]?.tokenIds ?? [], sampled));
    return false;
  };
  if (conversation.sampled.every((sampled) => sampled === null)) return own;
  const shared = await toSequence(conversation, tools, base.contextLength);
  return shared.spans.length > 0 ? [shared, ...own] : own;
}

/** Refuses a choice that was sampled after another prompt: its log-probabilities would not fit. */
function checkPrefix({ sampling }: Choice, prefix: readonly number[], at: Location): void {
  if (!sampling?.prompt || sampling.prompt === tokenIdsHash(prefix)) return;
  throw invalidField(
    at,
    'was not sampled after the messages and tools before it; send the messages, tools and token_ids of earlier replies unchanged, or put the prompt_token_ids of its response into the choice',
    sampling.prompt,
  );
}

const equal = (one: readonly number[], other: readonly number[]) =>
  one.length === other.length && one.every((token, index) => token === other[index]);

function ownSequence<Found>(
  prompt: readonly number[],
  reply: readonly number[],
  sampled: Sampled<Found>,
): SampledSequence<Found> {
  const tokens = [...prompt, ...reply];
  return { tokens, spans: [{ start: prompt.length, length: tokens.length - prompt.length, ...sampled }] };
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
