import type { z } from 'zod';
import { withoutStep } from '../contract/index.ts';
import { givenTexts, type KeyFunction, type RewardCodes } from '../environment/index.ts';
import { ExternalModel, ModelHandle, type RolloutModel, type SamplingOverride } from '../model/index.ts';
import type { ProgressOption } from '../progress/index.ts';
import {
  checkEssentials,
  checkSeats,
  countRollouts,
  type FailureKind,
  failureKinds,
  limitWords,
  namesOfSeats,
  parseScenarios,
  type RolloutCounts,
  type RolloutGroup,
  type RunGroupsOptions,
  runGroupsNames,
} from '../rollout/index.ts';
import { attribute, spanName, withSpan } from '../telemetry/index.ts';
import { asThrownBy } from '../util/error.ts';
import { sha256 } from '../util/json.ts';
import { OptionError } from '../util/option-error.ts';
import { checkOptionNames, type OptionNames, objectOf } from '../util/option-names.ts';
import { sumOf } from '../util/sums.ts';
import { checkPrices, priceNames, type TokenPrices } from './cost.ts';
import { type Estimate, estimateReward, estimateShare, type PassAt, passAt } from './estimate.ts';
import { EvaluationDirectory } from './evaluation-directory.ts';
import { openEvaluationView } from './evaluation-view.ts';
import { gatherGroups } from './gather-groups.ts';
import {
  nameOfSuccess,
  type ScenarioScore,
  type SuccessOf,
  scenarioKeys,
  scoreScenario,
  successOf,
} from './score-scenario.ts';

export interface EvaluateOptions<Schema extends z.ZodType, Outcome>
  extends Omit<RunGroupsOptions<Schema, Outcome>, 'rolloutsPerGroup'> {
  /** Default 1. */
  rolloutsPerScenario?: number;
  /**
   * Temperature of every call, instead of the agent's. `agent` keeps the agent's. Default 0 (greedy) for a model handle,
   * `agent` for external models, which have settings of their own.
   */
  temperature?: number | 'agent';
  /** Each k of pass@k and pass^k to compute, at most `rolloutsPerScenario`. Default: none. */
  passAt?: readonly number[];
  /** Whether a rollout succeeded. Default: its metric `success`, `true` or at least 1. */
  isSuccess?: SuccessOf;
  /** Pairs scenarios between evaluations. Default: the scenario's `id`, else a hash of its content. */
  key?: KeyFunction<z.output<Schema>>;
  /**
   * Folder that keeps each group as soon as it has ended. A call with the same folder continues from there, with the
   * result of one uninterrupted call. Pin the model: a name without a step may mean another checkpoint later. Default:
   * nothing is kept.
   */
  directory?: string;
  /**
   * Whether scenarios in `directory` with a rollout that did not complete run again: the cause may have been an outage.
   * The group with more completed rollouts counts and stays in the folder. With false they stay as they are, and a
   * finished evaluation is read back without a call. Default true.
   */
  rerunFailed?: boolean;
  /**
   * Token prices of the model, for its cost in `compare`. `directory` keeps them; the last
   * call that gives prices decides. Default: the cost is unknown.
   */
  prices?: TokenPrices | undefined;
  /**
   * How to show the running evaluation: scenarios done and their mean reward so far. Takes the values that `progress`
   * of `train` takes. Default: a live view if standard error is a terminal outside CI, else plain lines on it.
   */
  progress?: ProgressOption;
}

const { rolloutsPerGroup: _, ...sharedNames } = runGroupsNames;
const evaluateNames = {
  ...sharedNames,
  rolloutsPerScenario: 'count',
  temperature: true,
  passAt: 'list',
  isSuccess: 'function',
  key: 'function',
  directory: 'path',
  rerunFailed: [true, false],
  prices: objectOf(priceNames),
  progress: true,
} satisfies OptionNames<EvaluateOptions<z.ZodType, unknown>>;

export interface Evaluation<Scenario = unknown> {
  environment: string;
  /** Name of the model that was evaluated. */
  policy: string;
  /** Mean reward over the scenarios with a completed rollout; null without one. */
  reward: Estimate | null;
  /** Share of successful rollouts; null if no rollout's success is known. */
  success: Estimate | null;
  /** One for each requested k. */
  passAt: PassAt[];
  perScenario: ScenarioScore<Scenario>[];
  groups: RolloutGroup<Scenario>[];
  /** Counts of all rollouts. Means leave out rollouts that did not complete. */
  counts: RolloutCounts;
  /** Why rollouts did not complete, by kind, the most frequent first; empty if all completed. */
  failures: FailureKind[];
  /** Weight of each reward, and a digest of its function: tells whether two evaluations were scored alike. */
  rewards: RewardCodes;
  /** What judged success: `metric success`, or a digest of `isSuccess`, as `rewards` has them. */
  successBy: string;
  /** Absent if they are not known. */
  prices?: TokenPrices | undefined;
  /** Wall-clock seconds of this call. */
  seconds: number;
}

/**
 * Runs a model or an external model on scenarios and estimates its mean reward and success. The agent is the same as in
 * training; only the temperature differs.
 * @throws Before the first rollout: OptionError; ScenarioError for a scenario that does not fit the schema; RunError for
 *   a `directory` that holds something else. Later: RunError (`storage_failed`) if a group cannot be stored.
 */
export async function evaluate<Schema extends z.ZodType, Outcome>(
  options: EvaluateOptions<Schema, Outcome>,
): Promise<Evaluation<z.output<Schema>>> {
  try {
    return await runEvaluation(options);
  } catch (error) {
    throw asThrownBy(evaluate, error);
  }
}

async function runEvaluation<Schema extends z.ZodType, Outcome>(
  options: EvaluateOptions<Schema, Outcome>,
): Promise<Evaluation<z.output<Schema>>> {
  checkOptionNames('evaluate()', options, evaluateNames, limitWords);
  const {
    rolloutsPerScenario = 1,
    temperature: requestedTemperature,
    passAt: ks = [],
    isSuccess = successOf,
    key,
    directory,
    rerunFailed = true,
    prices,
    progress,
    ...rest
  } = options;
  const { environment, model, seats, seed = 0, groupStrategy = null } = options;
  checkEssentials('invalid_evaluation_option', options);
  checkSeats(environment, seats);
  const startedMs = performance.now();
  checkPassAt(ks, rolloutsPerScenario);
  checkPrices('invalid_evaluation_option', prices);
  const { temperature, evaluated } = atTemperature(model, requestedTemperature);
  const scenarios = await parseScenarios(environment, options.scenarios);
  const keys = scenarioKeys(scenarios, key);
  const stored =
    directory === undefined
      ? null
      : await EvaluationDirectory.open(directory, {
          environment: environment.name,
          policy: model.name,
          seed,
          rolloutsPerScenario,
          temperature,
          sampling: samplingOf(evaluated),
          groupStrategy,
          ...(seats ? { seats: namesOfSeats(seats) } : {}),
          texts: givenTexts(environment),
          scenarios: keys.length,
          scenarioKeys: sha256(JSON.stringify(keys)),
          rewards: environment.definition.rewards,
          prices,
        });
  const view = await openEvaluationView(progress, {
    name: `${model.name} in ${environment.name}`,
    total: keys.length,
  });
  try {
    const attributes = {
      [attribute.environment]: environment.name,
      [attribute.modelName]: withoutStep(model.name),
    };
    const groups = await withSpan(spanName.evaluation, attributes, () =>
      gatherGroups({ ...rest, model: evaluated, rolloutsPerGroup: rolloutsPerScenario }, scenarios, {
        stored,
        rerunFailed,
        onGroup: view?.onGroup,
      }),
    );
    const perScenario = groups.map((group, index) =>
      scoreScenario(group, { key: keys[index] ?? String(index), isSuccess }),
    );
    const evaluation: Evaluation<z.output<Schema>> = {
      environment: environment.name,
      policy: model.name,
      reward: estimateReward(
        perScenario.flatMap(({ reward }) => reward ?? []),
        groups.flatMap(({ trajectories }) => trajectories.flatMap(({ reward }) => reward ?? [])),
      ),
      success: estimateShare(
        perScenario.flatMap(({ success }) => success ?? []),
        { trials: sumOf(perScenario, ({ judged }) => judged) },
      ),
      passAt: ks.map((k) => passAt(k, perScenario)),
      perScenario,
      groups,
      counts: countRollouts(groups.flatMap(({ rollouts }) => rollouts)),
      failures: failureKinds(groups),
      rewards: environment.definition.rewards,
      successBy: nameOfSuccess(isSuccess),
      prices: prices ?? stored?.prices,
      seconds: (performance.now() - startedMs) / 1000,
    };
    view?.onEnd(evaluation);
    return evaluation;
  } finally {
    view?.close();
  }
}

function checkPassAt(ks: readonly number[], rolloutsPerScenario: number): void {
  for (const k of ks)
    if (!(Number.isInteger(k) && k >= 1 && k <= rolloutsPerScenario))
      throw new OptionError(
        'invalid_evaluation_option',
        `\`passAt\` has ${k} with ${rolloutsPerScenario} rollouts per scenario. Pass whole numbers up to ` +
          '`rolloutsPerScenario`, or raise it.',
        { option: 'passAt', value: ks },
      );
}

function atTemperature(
  model: RolloutModel,
  requested: number | 'agent' | undefined,
): { temperature: number | 'agent'; evaluated: RolloutModel } {
  if (model instanceof ModelHandle) {
    const temperature = requested ?? 0;
    return { temperature, evaluated: temperature === 'agent' ? model : model.with({ temperature }) };
  }
  if (requested === undefined || requested === 'agent') return { temperature: 'agent', evaluated: model };
  throw new OptionError(
    'invalid_evaluation_option',
    `\`temperature\` is ${requested}, and "${model.name}" is not a model handle, so its calls keep their temperature. ` +
      'Leave the option out, and set the temperature in the agent or with ' +
      '`externalModel(model, { settings: { temperature } })`.',
    { option: 'temperature', value: requested },
  );
}

function samplingOf(model: RolloutModel): SamplingOverride {
  const hasSettings = model instanceof ModelHandle || model instanceof ExternalModel;
  const settings: SamplingOverride = hasSettings ? model.settings : {};
  const { temperature, topP, topK, minP, maxOutputTokens } = settings;
  return { temperature, topP, topK, minP, maxOutputTokens };
}
