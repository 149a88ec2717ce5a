import { type AdvantageOptions, choiceAdvantages } from '../learning/index.ts';
import type { GroupRecord } from '../rollout/index.ts';
import type { GroupTokens } from '../training/index.ts';
import type { TrajectoryRecord } from '../trajectory/index.ts';
import { isObject } from '../util/json.ts';
import { meanOrNull, sumOf } from '../util/sums.ts';
import type { FailureRow, GroupDetail, RolloutDetail, RolloutSummary } from './api.ts';
import { type Credit, historiesOf, mainTurns } from './conversation.ts';
import { conversationsOf, creditedOf, type GroupFacts, partsOf } from './group-file.ts';
import type { FoundGroups } from './step-detail.ts';
import { stretchesOf } from './stretches.ts';

/** What the advantages of a group follow from. */
interface Shown {
  found: FoundGroups;
  facts: GroupFacts;
  record: GroupRecord;
  options: AdvantageOptions;
  /** What the job found of the group's tokens, if that is recorded. */
  tokens: GroupTokens | null;
}

export function groupDetail(shown: Shown): GroupDetail {
  const { found, facts, record } = shown;
  const numbers = found.file.groups.map(({ group }) => group);
  const at = numbers.indexOf(facts.group);
  return {
    run: found.run.id,
    which: found.which,
    group: facts.group,
    seat: record.seat ? { name: record.seat.name, model: record.seat.model } : null,
    title: facts.title,
    scenario: record.scenario,
    hasSignal: facts.hasSignal,
    isSolved: facts.isSolved,
    dropped: facts.dropped,
    rollouts: record.rollouts.map((_, rollout) => summaryOf(shown, rollout)),
    previous: numbers[at - 1] ?? null,
    next: numbers[at + 1] ?? null,
  };
}

function summaryOf(shown: Shown, at: number): RolloutSummary {
  const { record } = shown;
  const { rollout, status, trajectory, failure } = partsOf(record, at);
  const { advantages } = creditOf(shown, at);
  return {
    rollout: at,
    status,
    reward: rollout.status === 'completed' ? rollout.reward : null,
    failure: failure?.code ?? null,
    metrics: numbersOf(trajectory?.metrics),
    advantage: meanOrNull(advantages ?? []),
    turns: trajectory ? mainTurns(trajectory) : [],
    otherHistories: trajectory?.additional_histories?.length ?? 0,
    sampledTokens: trajectory ? sampledTokensOf(trajectory) : 0,
    milliseconds: rollout.duration_ms,
    stopReason: trajectory?.record.stop_reason ?? null,
  };
}

export function rolloutDetail(shown: Shown, at: number): RolloutDetail {
  const { found, facts, record } = shown;
  const { rollout, status, trajectory, failure } = partsOf(record, at);
  const credit = creditOf(shown, at);
  const trained = trainedOf(shown, at);
  return {
    run: found.run.id,
    which: found.which,
    group: facts.group,
    rollout: at,
    status,
    reward: rollout.status === 'completed' ? rollout.reward : null,
    failure: failure?.code ?? null,
    scenario: record.scenario,
    policy: trajectory?.record.policy ?? null,
    seed: rollout.seed,
    attempt: rollout.attempt,
    failureDetail: failure ? failureOf(failure, { group: facts.group, rollout: at }) : null,
    metrics: numbersOf(trajectory?.metrics),
    metadata: trajectory?.metadata ?? {},
    logs: trajectory?.logs ?? [],
    outcome: rollout.status === 'completed' ? (rollout.outcome ?? null) : null,
    stopReason: trajectory?.record.stop_reason ?? null,
    advantage: meanOrNull(credit.advantages ?? []),
    startTime: trajectory?.start_time ?? null,
    milliseconds: rollout.duration_ms,
    histories: trajectory ? historiesOf(trajectory, { ...credit, trained }) : [],
    stretches: trajectory ? stretchesOf(trajectory, rollout.duration_ms) : [],
    siblings: record.rollouts.map((_, sibling) => sibling),
  };
}

/**
 * The advantages of a rollout's choices, as the job computes them within the group. `normalize_advantages` divides those
 * of a whole step by one number, which is left out here.
 */
function creditOf({ found, facts, record, options }: Shown, at: number) {
  const rollout = record.rollouts[at];
  const none = (why: string) => ({ advantages: null, why });
  if (found.step === null) return none('evaluations do not train');
  if (rollout?.status !== 'completed') return none(`the rollout ${rollout?.status ?? 'is missing'}`);
  if (facts.dropped) return none(`its group is left out: ${facts.dropped}`);
  const trajectory = record.trajectories[rollout.trajectory];
  if (trajectory?.record.externalModel) return none('an external model answered');
  if (!facts.hasSignal) return { advantages: null, why: 'the rewards of its group are equal' };
  const advantages = choiceAdvantages(record.trajectories.map(creditedOf), options)[rollout.trajectory] ?? [];
  return { advantages, why: null };
}

/** What the job found of a rollout's tokens. */
function trainedOf({ record, tokens }: Shown, at: number): Credit['trained'] {
  const rollout = record.rollouts[at];
  if (!tokens || rollout?.status !== 'completed') return new Map();
  const found = tokens.trajectories.find(({ trajectory }) => trajectory === rollout.trajectory);
  return new Map(found?.choices.map((choice) => [choice.choice, choice]));
}

/** The options of a step that advantages depend on; `config` is the run's `config.json`. */
export function advantageOptions(config: Readonly<Record<string, unknown>>, step: number): AdvantageOptions {
  const job: unknown = Array.isArray(config.config) ? config.config[step] : config.config;
  const { scale_rewards: scale, advantage_balance: balance } = isObject(job) ? job : {};
  return {
    scaleRewards: typeof scale === 'boolean' ? scale : true,
    advantageBalance: typeof balance === 'number' ? balance : 0,
  };
}

const numbersOf = (metrics: TrajectoryRecord['metrics']): Record<string, number> =>
  Object.fromEntries(Object.entries(metrics ?? {}).map(([name, value]) => [name, Number(value)]));

/** Of all conversations. */
const sampledTokensOf = (trajectory: TrajectoryRecord): number =>
  sumOf(
    conversationsOf(trajectory).flatMap(({ messages_and_choices: entries }) => entries),
    (entry) => ('message' in entry ? (entry.token_ids?.length ?? 0) : 0),
  );

function failureOf(
  { code, message, at, stack }: GroupRecord['failures'][number],
  place: { group: number; rollout: number },
): FailureRow {
  return { code, message, at: at ?? null, stack: stack ?? null, count: 1, ...place };
}
