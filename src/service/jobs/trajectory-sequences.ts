import type { Choice, ParsedTrajectory } from '../../contract/index.ts';
import type { BaseModel } from '../../engines/engine.ts';
import { choiceToTurn, toTurn } from '../../language/chat/conversation.ts';
import type { Constraint } from '../../language/constraint/constraint.ts';
import type { Location } from '../../language/error.ts';
import { tokenIdsHash } from '../../language/tokenizer/tokenizer.ts';
import type { SampledSequence } from '../../learning/index.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { invalidField } from '../errors.ts';
import type { BaseModelTools } from '../inference/base-model-tools.ts';
import type { KnownConstraints } from '../inference/constraints.ts';
import { fromSampling } from '../inference/sampling/sampling.ts';
import { type Sampled, type TrainingConversation, toSequence } from './sequences.ts';
import { wholeChoice } from './whole-choice.ts';

type History = Pick<ParsedTrajectory, 'messages_and_choices' | 'tools'>;

export interface TrajectoryDependencies {
  constraints: KnownConstraints;
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
 * ids of its choices in it. A choice that brings another prompt than that is a sequence of its own, and context in the
 * history's. Fails where a choice was sampled after another prompt and does not bring it.
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
  /** For each turn, where it is one. */
  const choices: (Choice | null)[] = [];
  const own: SampledSequence<Constraint>[] = [];
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
    const sampled = await toSampled(choice, turn.tokenIds ?? [], at, constraints);
    const { prompt_token_ids: prompt } = choice;
    const apart = prompt && choice.sampling?.own_prompt;
    if (apart) own.push(ownSequence(prompt, turn.tokenIds ?? [], sampled));
    conversation.sampled.push(apart ? null : sampled);
  }
  conversation.mayFollow = (index, prefix) => {
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
  const shared = toSequence(conversation, tools, base.contextLength);
  return shared.spans.length > 0 ? [shared, ...own] : own;
}

/** Refuses a choice that stands where it was not sampled: its log-probabilities would be those of another prompt. */
function checkPrefix({ sampling }: Choice, prefix: readonly number[], at: Location): void {
  if (!sampling?.prompt || sampling.prompt === tokenIdsHash(prefix)) return;
  throw invalidField(
    at,
    'was not sampled after what the messages and tools before it give; send the messages, tools and token_ids of earlier replies as they were when it was sampled, or the prompt_token_ids of its response in the choice',
    sampling.prompt,
  );
}

const equal = (one: readonly number[], other: readonly number[]) =>
  one.length === other.length && one.every((token, index) => token === other[index]);

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
  constraints: KnownConstraints,
): Promise<Sampled> {
  const content = choice.logprobs?.content;
  return {
    logprobs: content ? content.map(({ logprob }) => logprob) : reply.map(() => null),
    sampling: fromSampling(choice.sampling),
    constraint: await findConstraint(choice, at, constraints),
    credit: choice.credited_reward ?? null,
  };
}

/** The constraint a choice was sampled under. Rejects where nothing ever was sampled under it. */
export async function findConstraint(
  choice: Choice,
  at: Location,
  constraints: KnownConstraints,
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
