import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import type { Choice, ParsedTrajectory, ParsedTrajectoryGroup } from '../../contract/index.ts';
import { rlConfigSchema, trajectoryGroupSchema } from '../../contract/index.ts';
import type { BaseModel, Constraint } from '../../engines/engine.ts';
import {
  makeDatums,
  type RewardedGroup,
  type RewardedTrajectory,
  resolveRlConfig,
} from '../../learning/index.ts';
import { invalidField, ServiceError } from '../errors.ts';
import type { BaseModelTools } from '../inference/base-model-tools.ts';
import { refuseForeignTokens } from '../inference/chat.ts';
import type { Constraints } from '../inference/constraints.ts';
import { choiceToTurn, type Location, toTurn } from '../inference/conversation.ts';
import { fromSampling } from '../inference/sampling.ts';
import { validateItems } from '../validation.ts';
import type { PreparedJob } from './prepared-job.ts';
import { type Sampled, type TrainingConversation, toSequence } from './sequences.ts';

/** What is kept of a job's request; its groups are validated in slices. */
export const rlPayloadSchema = z.object({ trajectory_groups: z.array(z.unknown()) });

type History = Pick<ParsedTrajectory, 'messages_and_choices' | 'tools'>;

export interface RlJobDependencies {
  constraints: Constraints;
  tools: BaseModelTools;
  base: BaseModel;
}

/** One gradient step over all groups. Rejects where nothing in them has a signal. */
export async function prepareRlJob(
  submitted: readonly unknown[],
  resolvedConfig: Record<string, unknown>,
  dependencies: RlJobDependencies,
  signal: AbortSignal,
): Promise<PreparedJob> {
  const { base } = dependencies;
  const { config, loss } = resolveRlConfig(rlConfigSchema.parse(resolvedConfig), {
    learningRate: base.defaults.rlLearningRate,
  });
  const groups = await validateItems(trajectoryGroupSchema, submitted, ['trajectory_groups']);
  const rewarded: RewardedGroup<Constraint>[] = [];
  for (const [groupIndex, group] of groups.entries()) {
    // A group at a time: between them the requests of others get their turn.
    await nextTurn();
    signal.throwIfAborted();
    const trajectories: RewardedTrajectory<Constraint>[] = [];
    for (const [index, trajectory] of group.trajectories.entries())
      trajectories.push(
        await toRewarded(trajectory, ['trajectory_groups', groupIndex, 'trajectories', index], dependencies),
      );
    rewarded.push({ trajectories });
  }
  const { datums, counts } = makeDatums(rewarded, config);
  if (datums.length === 0)
    throw new ServiceError(
      422,
      'nothing_trainable',
      `Nothing to train on: in none of the ${counts.num_groups_submitted} groups (${counts.num_trajectories} trajectories) do rewards differ between trajectories with sampled tokens.`,
    );
  const batch = { datums, loss, learningRate: config.learning_rate };
  return {
    steps: 1,
    batches: (async function* () {
      yield { batch, counts: { ...counts } };
    })(),
  };
}

/** Refuses, by place, choices that could not be trained on, before the job is accepted. */
export async function checkTrajectories(
  groups: readonly ParsedTrajectoryGroup[],
  { constraints, base }: Pick<RlJobDependencies, 'constraints' | 'base'>,
): Promise<void> {
  for (const [groupIndex, group] of groups.entries())
    for (const [index, trajectory] of group.trajectories.entries()) {
      const location = ['trajectory_groups', groupIndex, 'trajectories', index];
      for (const { history, at } of historiesOf(trajectory, location))
        for (const [position, item] of history.messages_and_choices.entries()) {
          const place = [...at, 'messages_and_choices', position];
          if ('message' in item) await checkChoice(item, place, constraints, base);
          else if (item.role === 'assistant')
            refuseForeignTokens(item.token_ids, base.vocabularySize, [...place, 'token_ids']);
        }
    }
}

async function checkChoice(
  choice: Choice,
  at: Location,
  constraints: Constraints,
  base: BaseModel,
): Promise<void> {
  const { tokenIds } = choiceToTurn(choice, at);
  refuseForeignTokens(tokenIds, base.vocabularySize, [...at, 'token_ids']);
  const content = choice.logprobs?.content;
  if (content && content.length !== tokenIds?.length)
    throw invalidField(
      [...at, 'logprobs', 'content'],
      `has ${content.length} entries for ${tokenIds?.length} token ids; there must be one for each`,
    );
  await findConstraint(choice, at, constraints);
}

async function findConstraint(
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

async function toRewarded(
  trajectory: ParsedTrajectory,
  location: Location,
  { constraints, tools, base }: RlJobDependencies,
): Promise<RewardedTrajectory<Constraint>> {
  const sequences: RewardedTrajectory<Constraint>['sequences'] = [];
  for (const { history, at } of historiesOf(trajectory, location)) {
    const conversation = await toConversation(history, at, constraints);
    if (conversation.sampled.some((sampled) => sampled !== null))
      sequences.push(toSequence(conversation, tools, base.contextLength));
  }
  return { reward: trajectory.reward, sequences };
}

function historiesOf(trajectory: ParsedTrajectory, location: Location): { history: History; at: Location }[] {
  return [
    { history: trajectory, at: location },
    ...(trajectory.additional_histories ?? []).map((history, index) => ({
      history,
      at: [...location, 'additional_histories', index],
    })),
  ];
}

async function toConversation(
  history: History,
  location: Location,
  constraints: Constraints,
): Promise<TrainingConversation> {
  const conversation: TrainingConversation = { turns: [], tools: history.tools, location, sampled: [] };
  for (const [index, item] of history.messages_and_choices.entries()) {
    const at = [...location, 'messages_and_choices', index];
    if ('message' in item) {
      conversation.turns.push(choiceToTurn(item, at));
      conversation.sampled.push(await toSampled(item, at, constraints));
    } else {
      conversation.turns.push(toTurn(item, at));
      conversation.sampled.push(null);
    }
  }
  return conversation;
}

async function toSampled(choice: Choice, at: Location, constraints: Constraints): Promise<Sampled> {
  const content = choice.logprobs?.content;
  return {
    logprobs: content ? content.map(({ logprob }) => logprob) : (choice.token_ids ?? []).map(() => null),
    sampling: fromSampling(choice.sampling),
    constraint: await findConstraint(choice, at, constraints),
  };
}
