import type { Span } from '@opentelemetry/api';
import { z } from 'zod';
import { formatModelName, parseModelName } from '../contract/index.ts';
import type { ModelHandle } from '../model/index.ts';
import type { VersionChange } from '../progress/index.ts';
import { attribute } from '../telemetry/index.ts';
import { withDeadline } from '../util/deadline.ts';
import { martingaleVersion } from '../util/version.ts';
import { type ModelSource, modelAskedOf } from './model-source.ts';
import { type TrainOptions, trainDefaults } from './train-options.ts';

/** What a run is made with. */
export interface RunOrigin {
  /** Name of the base model; null where a handle was given and the service does not say. */
  baseModel: string | null;
  versions: RunVersions;
}

export interface RunVersions {
  martingale: string;
  node: string;
  /** Name of the service's engine, as it lists the base model with it. Services tell no version of it. */
  engine: string | null;
}

/** Of a service that does not answer soon, these stay unknown. */
const listTimeoutMs = 10_000;

export async function originOf(
  source: ModelSource,
  model: ModelHandle,
  signal: AbortSignal | undefined,
): Promise<RunOrigin> {
  const timedOut = () => new Error(`The service has not listed its models within ${listTimeoutMs} ms.`);
  // The client's own deadline is that of one attempt, which it repeats.
  const listed = await withDeadline({ timeoutMs: listTimeoutMs, signal, timedOut }, (ending) =>
    model.client.inferenceModels.list({ signal: ending }),
  )
    // Not all services have this list, and no run depends on it.
    .catch(() => {
      signal?.throwIfAborted();
      return [];
    });
  const path = model.name.replace(/:step\d+$/, '');
  const root = listed.find(({ id }) => id === path)?.root;
  const baseModel = modelAskedOf(source)?.baseModel ?? (root === path ? undefined : root) ?? null;
  const engine = listed.find(({ id }) => id === baseModel)?.owned_by || null;
  return { baseModel, versions: { martingale: martingaleVersion, node: process.versions.node, engine } };
}

const versionsSchema = z.object({
  martingale: z.string(),
  node: z.string(),
  engine: z.string().nullable(),
});

/** Only what is known of both: that one of them does not say changes nothing. */
export function versionChanges(was: unknown, is: RunVersions): VersionChange[] {
  const begun = versionsSchema.safeParse(was).data;
  if (!begun) return [];
  return (['martingale', 'node', 'engine'] as const).flatMap((of) => {
    const [before, now] = [begun[of], is[of]];
    return before === null || now === null || before === now ? [] : { of, was: before, is: now };
  });
}

/** JSON Schema of the scenarios as they are given, or why there is none. */
export function scenarioSchemaOf(schema: z.ZodType): Record<string, unknown> {
  try {
    return { ...z.toJSONSchema(schema, { io: 'input' }) };
  } catch (error) {
    return { unavailable: error instanceof Error ? error.message : String(error) };
  }
}

/** Options that every run says, or that are no settings of it. */
const stated = new Set<string>([
  ...['environment', 'scenarios', 'steps', 'groupsPerStep', 'rolloutsPerGroup'],
  ...['model', 'client', 'baseUrl', 'apiKey'],
  ...['runDirectory', 'resume', 'onEvent', 'progress', 'signal'],
]);

/**
 * The options whose value differs from their default, with both; the default is null where an option is without a value,
 * or where the service has one of its own.
 * @param written The options as `config.json` has them anyway.
 */
export function changedOptions<Schema extends z.ZodType, Outcome>(
  options: TrainOptions<Schema, Outcome>,
  written: Readonly<Record<string, unknown>>,
): Record<string, { value: unknown; default: unknown }> {
  const defaults: Readonly<Record<string, unknown>> = trainDefaults;
  const changed = Object.entries(options).flatMap(([name, given]) => {
    if (given === undefined || stated.has(name)) return [];
    const value = typeof given === 'function' ? described(given) : (written[name] ?? described(given));
    const usual = defaults[name] ?? null;
    const whole = isRecord(value) && isRecord(usual) ? { ...usual, ...value } : value;
    return JSON.stringify(whole) === JSON.stringify(usual)
      ? []
      : [[name, { value, default: usual }] as const];
  });
  return Object.fromEntries(changed);
}

const isRecord = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * For a file of JSON: functions and instances by their name. An object with functions, as an executor may be, is an
 * instance too: what else it holds may be secret, or hold itself.
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

/** What `config.json` has of a run. Runs of earlier versions have less. */
export const runConfigSchema = z.looseObject({
  environment: z.string(),
  /** Pinned to the checkpoint that the run began with. */
  model: z.string().optional(),
  /** Name of the base model; null where the service does not say. */
  baseModel: z.string().nullish(),
  /** What the run was begun with. */
  versions: versionsSchema.optional(),
  /** JSON Schema of the scenarios as they are given; `unavailable` says why there is none. */
  scenarioSchema: z.record(z.string(), z.unknown()).optional(),
  /** The options that differ from their defaults: functions and instances are `{ function }` and `{ instance }`. */
  changed: z.record(z.string(), z.object({ value: z.unknown(), default: z.unknown() })).optional(),
});

export type RunConfig = z.output<typeof runConfigSchema>;

/** What a run trains, on its span. */
export function describeRun(span: Span, model: ModelHandle, baseModel: string | null): void {
  span.setAttribute(attribute.modelName, withoutStep(model));
  if (model.id !== undefined) span.setAttribute(attribute.modelId, model.id);
  if (baseModel !== null) span.setAttribute(attribute.baseModel, baseModel);
}

/** `entity/project/name` of a model, whichever its step. */
export function withoutStep({ name }: ModelHandle): string {
  const parsed = parseModelName(name);
  return parsed
    ? formatModelName({ entity: parsed.entity, project: parsed.project, name: parsed.name })
    : name;
}
