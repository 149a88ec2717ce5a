import type { SamplingParameters } from '../../engines/engine.ts';
import type { Conversation } from '../../language/chat/conversation.ts';
import type { Constraint } from '../../language/constraint/constraint.ts';
import type { ChatFormat } from '../../language/tokenizer/tokenizer.ts';
import type { SampledSequence } from '../../learning/index.ts';
import { ServiceError } from '../errors.ts';
import type { BaseModelTools } from '../inference/base-model-tools.ts';

/** What is known of a turn that trains, besides its tokens. */
export interface Sampled {
  logprobs: (number | null)[];
  sampling: SamplingParameters;
  constraint: Constraint | null;
  /** What the choice is credited with in place of its trajectory's reward. Absent or null: that reward. */
  credit?: number | null;
}

export interface TrainingConversation extends Conversation {
  /** For each turn: how it was sampled, or null where it is context. */
  sampled: (Sampled | null)[];
  /** What the chat template is told of it; absent: nothing. */
  reasoningEffort?: string | undefined;
  /** Whether a turn that trains may do so after these tokens; where it may not it is context. Absent: it may. */
  mayFollow?: (turn: number, prefix: readonly number[]) => boolean;
}

/**
 * A conversation as one sequence of tokens in which the sampled ids stand as they were sampled, ending with the
 * last of them: what follows trains nothing. A sampled end token is part of its span, although the template wrote it.
 */
export function toSequence(
  conversation: TrainingConversation,
  { renderer, format }: Pick<BaseModelTools, 'renderer' | 'format'>,
  contextLength: number,
): SampledSequence<Constraint> {
  const { turns, sampled, reasoningEffort, mayFollow } = conversation;
  const { tokens, splices } = renderer.render(conversation, {
    addGenerationPrompt: false,
    reasoningEffort,
    contextLength,
  });
  const spans: SampledSequence<Constraint>['spans'] = [];
  let splice = 0;
  for (const [index, turn] of turns.entries()) {
    if (!turn.tokenIds) continue;
    const place = splices[splice++];
    const how = sampled[index];
    if (!place || !how) continue;
    if (mayFollow && !mayFollow(index, tokens.slice(0, place.start))) continue;
    checkSpliced(tokens, place.start, turn.tokenIds, format, conversation);
    spans.push({ start: place.start, length: place.length, ...how });
  }
  const last = spans.at(-1);
  const end = last ? last.start + last.length : 0;
  if (end > contextLength)
    throw new ServiceError(
      422,
      'context_length_exceeded',
      `${conversation.location.join('.')}: the conversation has ${end} tokens and the model's context holds ${contextLength}.`,
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
