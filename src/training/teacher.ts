import type { Client } from '../client/index.ts';
import { parseModelName, type RlConfig, withoutStep } from '../contract/index.ts';
import type { Environment } from '../environment/index.ts';
import { ModelHandle } from '../model/index.ts';
import { showValue } from '../util/show-value.ts';
import { invalidRunOption, runOptionError } from './errors.ts';

/** A model that the trained one learns from: on-policy distillation. */
export interface Teacher {
  /**
   * A model of the same service with the same vocabulary, or its name: `entity/project/name`, with `:step12` a checkpoint,
   * or a base model. Without a step, each job learns from its newest checkpoint.
   *
   * @example 'team/desk/large:step40'
   */
  model: string | ModelHandle;
  /**
   * Weight of one nat between teacher and model, beside the advantages of the rewards: `kl_penalty_coef` of the jobs.
   *
   * @default 1
   * @example 0.5
   */
  weight?: number;
}

const defaultWeight = 1;

/** Options of `config` that the teacher sets. */
const ownFields = [
  'kl_penalty_coef',
  'kl_penalty_reference_model',
  'kl_penalty_reference_step',
  'kl_penalty_step_lag',
] as const;

/** The teacher as jobs and records name it; undefined without one. */
export function namedTeacher(teacher: Teacher | undefined): { model: string; weight: number } | undefined {
  if (!teacher) return undefined;
  const { model, weight = defaultWeight } = teacher;
  return { model: typeof model === 'string' ? model : model.name, weight };
}

/** The options of a job with its teacher. */
export function withTeacher(
  config: RlConfig | undefined,
  teacher: Teacher | undefined,
): RlConfig | undefined {
  const named = namedTeacher(teacher);
  if (!named) return config;
  return { ...config, kl_penalty_coef: named.weight, kl_penalty_reference_model: named.model };
}

/** @throws OptionError for an invalid teacher, or if the environment has no reward and there is no teacher either. */
export function checkTeacher(
  teacher: Teacher | undefined,
  { name, definition: { rewards, credit } }: Pick<Environment, 'name' | 'definition'>,
): void {
  if (!teacher) {
    if (credit !== 'none' || Object.values(rewards).some(({ weight }) => weight !== 0)) return;
    throw runOptionError(
      'environment',
      `No reward of the environment "${name}" has a weight other than 0, so there is nothing to learn from. Give it ` +
        '`rewards` or `groupRewards`, or `credit` if all rewards are step rewards, or train with a `teacher`.',
    );
  }
  const { model, weight = defaultWeight } = teacher;
  if (!(model instanceof ModelHandle) && typeof model !== 'string')
    throw invalidRunOption('teacher.model', model, 'Pass a model or its name.');
  if (typeof weight !== 'number' || !(weight > 0) || !Number.isFinite(weight))
    throw invalidRunOption('teacher.weight', weight, 'Pass a number above 0.');
}

/** @throws OptionError if `config` sets what the teacher sets. */
export function checkNoPenalty(config: RlConfig | undefined, teacher: Teacher | undefined): void {
  const field = teacher && ownFields.find((name) => config?.[name] !== undefined && config[name] !== null);
  if (field === undefined) return;
  throw runOptionError(
    'teacher',
    `\`teacher\` and \`config.${field}\` (${showValue(config?.[field])}) are two KL penalties, and a job has one. Remove \`config.${field}\`, or \`teacher\` to set the penalty there.`,
  );
}

/**
 * Refuses a teacher that the service does not have before the rollouts of the first step. A service that does not list its
 * models refuses it with the first job.
 *
 * @throws OptionError
 */
export async function requireTeacher(
  teacher: Teacher | undefined,
  client: Client,
  signal: AbortSignal | undefined,
): Promise<void> {
  const named = namedTeacher(teacher);
  if (!named) return;
  const listed = await client.inferenceModels.list({ signal }).catch(() => []);
  signal?.throwIfAborted();
  const name = parseModelName(named.model) ? withoutStep(named.model) : named.model;
  if (listed.length === 0 || listed.some(({ id }) => id === name)) return;
  throw invalidRunOption(
    'teacher.model',
    named.model,
    'The service of the trained model has none of this name. `martingale models` lists those that a key sees.',
  );
}
