import { z } from 'zod';
import { withoutStep } from '../contract/index.ts';
import type { ModelHandle } from '../model/index.ts';
import type { VersionChange } from '../progress/index.ts';
import { withDeadline } from '../util/deadline.ts';
import { messageOf } from '../util/error.ts';
import { isObject } from '../util/json.ts';
import { martingaleVersion } from '../util/version.ts';
import { type ModelSource, requestedModelOf } from './model-source.ts';
import { type TrainOptions, trainDefaults } from './train-options.ts';

/** The base model and versions that a run was started with. */
export interface RunOrigin {
  /** Name of the base model; null if the model is a handle and the service does not list its base model. */
  baseModel: string | null;
  versions: RunVersions;
}

export interface RunVersions {
  martingale: string;
  node: string;
  /** Name of the service's engine, from its list of models. Services do not report the engine's version. */
  engine: string | null;
}

/** If the service takes longer, base model and engine stay unknown. */
const listTimeoutMs = 10_000;

export async function originOf(
  source: ModelSource,
  model: ModelHandle,
  signal: AbortSignal | undefined,
): Promise<RunOrigin> {
  const timedOut = () => new Error(`The service did not list its models within ${listTimeoutMs} ms.`);
  // The client's own deadline covers only one attempt, and the client retries.
  const listed = await withDeadline({ timeoutMs: listTimeoutMs, signal, timedOut }, (ending) =>
    model.client.inferenceModels.list({ signal: ending }),
  )
    // Optional: not all services have this list.
    .catch(() => {
      signal?.throwIfAborted();
      return [];
    });
  const path = withoutStep(model.name);
  const root = listed.find(({ id }) => id === path)?.root;
  const baseModel = requestedModelOf(source)?.baseModel ?? (root === path ? undefined : root) ?? null;
  const engine = listed.find(({ id }) => id === baseModel)?.owned_by || null;
  return { baseModel, versions: { martingale: martingaleVersion, node: process.versions.node, engine } };
}

const versionsSchema = z.object({
  martingale: z.string(),
  node: z.string(),
  engine: z.string().nullable(),
});

/** Compares only versions that are known on both sides. */
export function versionChanges(saved: unknown, current: RunVersions): VersionChange[] {
  const atStart = versionsSchema.safeParse(saved).data;
  if (!atStart) return [];
  return (['martingale', 'node', 'engine'] as const).flatMap((of) => {
    const [before, now] = [atStart[of], current[of]];
    return before === null || now === null || before === now ? [] : { of, was: before, is: now };
  });
}

/** JSON Schema of the scenarios before parsing, or why there is none. */
export function scenarioSchemaOf(schema: z.ZodType): Record<string, unknown> {
  try {
    return { ...z.toJSONSchema(schema, { io: 'input' }) };
  } catch (error) {
    return { unavailable: messageOf(error) };
  }
}

/** Options that `config.json` always contains, or that are not settings of the run. */
const alwaysWritten = new Set(
  (
    'environment scenarios steps groupsPerStep rolloutsPerGroup model client baseUrl apiKey runDirectory resume ' +
    'onEvent progress signal'
  ).split(' '),
);

/**
 * The options that differ from their defaults, with value and default. The default is null if an option has none, or if
 * the service decides it.
 * @param written The options as they are written to `config.json`.
 */
export function changedOptions<Schema extends z.ZodType, Outcome>(
  options: TrainOptions<Schema, Outcome>,
  written: Readonly<Record<string, unknown>>,
): Record<string, { value: unknown; default: unknown }> {
  const defaults: Readonly<Record<string, unknown>> = trainDefaults;
  const changed = Object.entries(options).flatMap(([name, option]) => {
    if (option === undefined || alwaysWritten.has(name)) return [];
    const value = typeof option === 'function' ? described(option) : (written[name] ?? described(option));
    const usual = defaults[name] ?? null;
    const whole = isObject(value) && isObject(usual) ? { ...usual, ...value } : value;
    return JSON.stringify(whole) === JSON.stringify(usual)
      ? []
      : [[name, { value, default: usual }] as const];
  });
  return Object.fromEntries(changed);
}

/**
 * Describes a value for a JSON file: functions and instances by name. An object with functions, such as an executor,
 * counts as an instance, because its other fields may be secret or circular.
 */
function described(value: unknown): unknown {
  if (typeof value === 'function') return { function: value.name === '' ? 'anonymous' : value.name };
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(described);
  const prototype: unknown = Object.getPrototypeOf(value);
  const isPlain = prototype === Object.prototype || prototype === null;
  if (!isPlain) return { instance: value.constructor.name };
  if (Object.values(value).some((inner) => typeof inner === 'function')) return { instance: 'Object' };
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, described(inner)]));
}

/** Contents of `config.json`. Runs of earlier versions have fewer fields. */
export const runConfigSchema = z.looseObject({
  environment: z.string(),
  /** Pinned to the checkpoint that the run started from. */
  model: z.string().optional(),
  /** Name of the base model; null if unknown. */
  baseModel: z.string().nullish(),
  /** Versions that the run was started with. */
  versions: versionsSchema.optional(),
  /** JSON Schema of the scenarios before parsing; `unavailable` says why there is none. */
  scenarioSchema: z.record(z.string(), z.unknown()).optional(),
  /**
   * Options that differ from their defaults. Functions are `{ function }` and instances `{ instance }`, with their
   * names.
   */
  changed: z.record(z.string(), z.object({ value: z.unknown(), default: z.unknown() })).optional(),
});

export type RunConfig = z.output<typeof runConfigSchema>;
