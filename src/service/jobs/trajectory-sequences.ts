import type { Choice, ParsedTrajectory } from '../../contract/index.ts';
import type { BaseModel, Constraint } from '../../engines/engine.ts';
import type { SampledSequence } from '../../learning/index.ts';
import { invalidField } from '../errors.ts';
import type { BaseModelTools } from '../inference/base-model-tools.ts';
import type { Constraints } from '../inference/constraints.ts';
import { choiceToTurn, type Location, toTurn } from '../inference/conversation.ts';
import { fromSampling } from '../inference/sampling.ts';
import { type Sampled, type TrainingConversation, toSequence } from './sequences.ts';

type History = Pick<ParsedTrajectory, 'messages_and_choices' | 'tools'>;

export interface TrajectoryDependencies {
  constraints: Constraints;
  tools: BaseModelTools;
  base: BaseModel;
}

/** The conversations of a trajectory, each with its place in the request. */
export function historiesOf(
  trajectory: ParsedTrajectory,
  location: Location,
): { history: History; at: Location }[] {
  return [
    { history: trajectory, at: location },
    ...(trajectory.additional_histories ?? []).map((history, index) => ({
      history,
      at: [...location, 'additional_histories', index],
    })),
  ];
}

/**
 * What trains of a trajectory as token ids. Each history is one sequence, rendered from its messages with the sampled
 * ids of its choices in it. A choice that brings its own prompt is a sequence of its own, and context in the history's.
 */
export async function trajectorySequences(
  trajectory: ParsedTrajectory,
  location: Location,
  dependencies: TrajectoryDependencies,
): Promise<SampledSequence<Constraint>[]> {
  const sequences: SampledSequence<Constraint>[] = [];
  for (const { history, at } of historiesOf(trajectory, location))
    sequences.push(...(await historySequences(history, at, dependencies)));
  return sequences;
}

async function historySequences(
  history: History,
  location: Location,
  { constraints, tools, base }: TrajectoryDependencies,
): Promise<SampledSequence<Constraint>[]> {
  const conversation: TrainingConversation = { turns: [], tools: history.tools, location, sampled: [] };
  const own: SampledSequence<Constraint>[] = [];
  for (const [index, item] of history.messages_and_choices.entries()) {
    const at = [...location, 'messages_and_choices', index];
    if (!('message' in item)) {
      conversation.turns.push(toTurn(item, at));
      conversation.sampled.push(null);
      continue;
    }
    const turn = choiceToTurn(item, at);
    const reply = turn.tokenIds ?? [];
    conversation.turns.push(turn);
    const sampled = await toSampled(item, reply, at, constraints);
    if (item.prompt_token_ids) own.push(ownSequence(item.prompt_token_ids, reply, sampled));
    conversation.sampled.push(item.prompt_token_ids ? null : sampled);
  }
  const trains = conversation.sampled.some((sampled) => sampled !== null);
  return trains ? [toSequence(conversation, tools, base.contextLength), ...own] : own;
}

function ownSequence(
  prompt: readonly number[],
  reply: readonly number[],
  sampled: Sampled,
): SampledSequence<Constraint> {
  const tokens = [...prompt, ...reply];
  return { tokens, spans: [{ start: prompt.length, length: tokens.length - prompt.length, ...sampled }] };
}

async function toSampled(
  choice: Choice,
  reply: readonly number[],
  at: Location,
  constraints: Constraints,
): Promise<Sampled> {
  const content = choice.logprobs?.content;
  return {
    logprobs: content ? content.map(({ logprob }) => logprob) : reply.map(() => null),
    sampling: fromSampling(choice.sampling),
    constraint: await findConstraint(choice, at, constraints),
  };
}

/** The constraint a choice was sampled under. Rejects where nothing ever was sampled under it. */
export async function findConstraint(
  choice: Choice,
  at: Location,
  constraints: Constraints,
): Promise<Constraint | null> {
  const hash = choice.sampling?.constraint;
  if (hash === undefined || hash === null) return null;
  const constraint = await constraints.find(hash);
  if (!constraint)
    throw invalidField(
      [...at, 'sampling', 'constraint'],
      'nothing was sampled under this constraint here; send the choices of this service back as they came',
      hash,
    );
  return constraint;
}
