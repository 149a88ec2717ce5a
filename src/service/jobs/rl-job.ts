import { type ParsedTrajectory, rlConfigSchema, type Untrained } from '../../contract/index.ts';
import type { Weights } from '../../engines/engine.ts';
import type { Constraint, Location } from '../../language/index.ts';
import {
  type BatchCounts,
  hasTeacher,
  makeDatums,
  type ResolvedRlConfig,
  type RewardedGroup,
  type RewardedTrajectory,
  resolveRlConfig,
  type SampledSequence,
} from '../../learning/index.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { ServiceError } from '../errors.ts';
import { constraintOf } from './choices.ts';
import { readColumns } from './group-columns.ts';
import { groupsField } from './read-groups.ts';
import { type TrajectoryDependencies, trajectorySequences } from './sequences.ts';
import type { PreparedJob } from './train-job.ts';
import type { JobTokens, TrainedDatum } from './trained-tokens.ts';

/** The options that name the reference of the KL penalty. */
export type KlReference = Pick<
  ResolvedRlConfig,
  'kl_penalty_reference_step' | 'kl_penalty_step_lag' | 'kl_penalty_reference_model'
>;

interface RlJobDependencies extends Pick<TrajectoryDependencies, 'base'> {
  /** Finds the weights of the KL penalty's reference. */
  reference: (config: KlReference) => Promise<Weights>;
  /** Gets what the step found of the tokens. */
  onTokens: (tokens: JobTokens) => void;
}

/** The trajectories of each group, tokenized, then null. */
type TokenizedGroups = AsyncIterable<RewardedTrajectory<Constraint> | null>;

/** Tokenizes trajectories one at a time. `packed`: the trajectories of each group, then null. */
export async function* tokenizePacked(
  packed: AsyncIterable<ParsedTrajectory | null> | Iterable<ParsedTrajectory | null>,
  dependencies: TrajectoryDependencies,
): TokenizedGroups {
  let group = 0;
  let index = 0;
  for await (const trajectory of packed) {
    if (trajectory === null) {
      group++;
      index = 0;
      yield null;
      continue;
    }
    const location = [groupsField, group, 'trajectories', index++];
    yield {
      reward: trajectory.reward,
      sequences: await trajectorySequences(trajectory, location, dependencies),
    };
  }
}

/** Reads what stored groups train on. `columns`: the columns of each group, as `packGroup` wrote them. */
export async function* readStored(
  columns: AsyncIterable<Buffer>,
  { constraints }: Pick<TrajectoryDependencies, 'constraints'>,
): TokenizedGroups {
  let group = 0;
  for await (const bytes of columns) {
    let index = 0;
    for (const { reward, sequences } of readColumns(bytes)) {
      const path = ['groups', group, 'trajectories', index++];
      yield { reward, sequences: await withConstraints(sequences, constraints, path) };
    }
    group++;
    yield null;
  }
}

async function withConstraints(
  sequences: readonly SampledSequence<string>[],
  constraints: TrajectoryDependencies['constraints'],
  path: Location,
): Promise<SampledSequence<Constraint>[]> {
  const found: SampledSequence<Constraint>[] = [];
  for (const { tokens, spans } of sequences) {
    const own: SampledSequence<Constraint>['spans'] = [];
    for (const span of spans)
      own.push({ ...span, constraint: await constraintOf(span.constraint, path, constraints) });
    found.push({ tokens, spans: own });
  }
  return found;
}

/**
 * Prepares one gradient step over all groups of a job, or none when no group has a signal and no teacher scores them.
 * Reads `groups` one trajectory at a time. Rejects when no group has a choice.
 */
export async function prepareRlJob(
  groups: TokenizedGroups,
  resolvedConfig: Record<string, unknown>,
  dependencies: RlJobDependencies,
  signal: AbortSignal,
): Promise<PreparedJob> {
  const { config, loss } = resolveRlConfig(rlConfigSchema.parse(resolvedConfig), {
    learningRate: dependencies.base.defaults.rlLearningRate,
  });
  const slices = new TimeSlices();
  const rewarded: RewardedGroup<Constraint>[] = [];
  let trajectories: RewardedTrajectory<Constraint>[] = [];
  for await (const trajectory of groups) {
    signal.throwIfAborted();
    if (trajectory === null) {
      rewarded.push({ trajectories });
      trajectories = [];
    } else trajectories.push(trajectory);
    if (slices.over) await slices.pause();
  }
  const making = makeDatums(rewarded, config);
  let made = making.next();
  for (; !made.done; made = making.next()) if (slices.over) await slices.pause();
  const { datums, origins, counts, hasSignal } = made.value;
  if (datums.length === 0) {
    const hasChoices = rewarded.some((group) =>
      group.trajectories.some(({ sequences }) => sequences.length > 0),
    );
    return { untrained: whyUntrained(counts, { hasChoices, isTaught: hasTeacher(config), hasSignal }) };
  }
  const reference = loss.klPenalty ? await dependencies.reference(config) : null;
  const batch = { datums, loss, reference, learningRate: config.learning_rate };
  const places = rewarded.flatMap(({ trajectories }, group) =>
    trajectories.map((_, trajectory) => ({ group, trajectory })),
  );
  const trained = datums.map(({ spans }, at): TrainedDatum => {
    const { trajectory, choices } = origins[at] as (typeof origins)[number];
    return {
      ...(places[trajectory] as (typeof places)[number]),
      spans: spans.map(({ length }, span) => ({ choice: choices[span] ?? 0, length })),
    };
  });
  return {
    onTokens: (tokens) => dependencies.onTokens({ datums: trained, tokens }),
    steps: 1,
    batches: (async function* () {
      yield { batch, counts: { ...counts } };
    })(),
  };
}

function whyUntrained(
  counts: BatchCounts,
  { hasChoices, isTaught, hasSignal }: Record<'hasChoices' | 'isTaught' | 'hasSignal', boolean>,
): Untrained {
  const { num_groups_submitted: submitted, num_trajectories: trajectories } = counts;
  if (trajectories > 0 && !hasChoices)
    throw new ServiceError(
      422,
      'nothing_trainable',
      `Nothing to train on: none of the ${trajectories} trajectories has a choice. Put the choices of the responses into messages_and_choices unchanged; messages are context.`,
    );
  const metrics = { ...counts };
  return hasSignal || isTaught
    ? {
        reason: 'no_decisions',
        message: `Nothing to train on: ${isTaught ? 'no token of a reply' : 'rewards differ, but no token of a reply with an advantage'} had an alternative (${submitted} groups, ${trajectories} trajectories). Loosen the constraint, or sample at a higher temperature.`,
        metrics,
      }
    : {
        reason: 'no_signal',
        message: `Nothing to train on: rewards differ in none of the ${submitted} groups (${trajectories} trajectories). Give the trajectories of a group different rewards, or use scenarios that are solved sometimes, but not always.`,
        metrics,
      };
}
