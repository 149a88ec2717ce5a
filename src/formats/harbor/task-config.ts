import { z } from 'zod';
import { HarborError } from './errors.ts';

const variables = z.record(z.string(), z.string()).default({});
const seconds = z.number().positive();
/** A field that describes the task and changes nothing in a rollout. */
const anything = z.unknown().optional();
/** A list that asks for something if it is not empty. Harbor writes the empty one. */
const emptyList = z.tuple([], 'only an empty list is').optional();
/** Harbor takes an empty text for a field that is not there. */
const text = (schema: z.ZodType<string, string> = z.string()) =>
  z.union([z.literal('').transform(() => undefined), schema]).optional();
const user = z.union([text(), z.number().int().min(0)]).optional();
const version = z.enum(['1.0', '1.1', '1.2', '1.3', '1.4']).optional();
/** Network of the whole rollout in `environment`, and of the agent or the verifier in their sections. */
const network = {
  network_mode: z.enum(['public', 'no-network']).optional(),
  allowed_hosts: emptyList,
};

const mib = z.number().int().positive().optional();
const mibOfUnit = { G: 1024, M: 1, K: 1 / 1024 };

/** A size as older tasks have it: `2G` is 2048 MiB. */
const size = z
  .string()
  .regex(/^\s*(\d+\.?\d*|\.\d+)\s*[GMK]\s*$/i, 'expected a size such as "2G", "512M" or "1048576K"')
  .transform((given) => {
    const unit = given.trim().at(-1)?.toUpperCase();
    return Math.trunc(Number.parseFloat(given) * mibOfUnit[unit === 'G' || unit === 'M' ? unit : 'K']);
  })
  .pipe(z.number().positive('expected at least 1M'))
  .optional();

const environment = z
  .strictObject({
    docker_image: text(),
    build_timeout_sec: seconds.default(600),
    os: z.string().toLowerCase().pipe(z.literal('linux')).optional(),
    cpus: z.number().positive().optional(),
    memory_mb: mib,
    memory: size,
    storage_mb: mib,
    storage: size,
    gpus: z.literal(0).optional(),
    // They choose among the GPUs that `gpus` asks for.
    gpu_types: z.array(z.string()).optional(),
    mcp_servers: emptyList,
    skills_dir: z.literal('').optional(),
    env: variables,
    workdir: text(z.string().startsWith('/')),
    ...network,
    allow_internet: z.boolean().optional(),
  })
  .superRefine((given, context) => {
    for (const name of ['memory', 'storage'] as const) {
      const [old, now] = [given[name], given[`${name}_mb`]];
      if (old !== undefined && now !== undefined && old !== now)
        context.addIssue({ code: 'custom', path: [name], message: `${name}_mb says ${now}; leave one out` });
    }
  })
  .transform(({ memory, memory_mb, storage, storage_mb, network_mode, allow_internet, ...given }) => ({
    ...given,
    memory_mb: memory_mb ?? memory,
    storage_mb: storage_mb ?? storage,
    // Harbor reads the old name only where the new one is not there.
    network_mode: network_mode ?? (allow_internet === false ? 'no-network' : 'public'),
  }));

/** The fields of `task.toml` that are honoured or ask for nothing. Ignoring any other field would change the task. */
const schema = z
  .strictObject({
    schema_version: version,
    version,
    task: anything,
    metadata: anything,
    source: anything,
    solution: anything,
    // It says how the rewards of steps become one.
    multi_step_reward_strategy: z.enum(['mean', 'final']).optional(),
    steps: emptyList,
    artifacts: emptyList,
    agent: z.strictObject({ timeout_sec: seconds.optional(), user, ...network }).prefault({}),
    verifier: z
      .strictObject({
        timeout_sec: seconds.default(600),
        env: variables,
        user,
        environment_mode: z.literal('shared').optional(),
        collect: emptyList,
        ...network,
      })
      .prefault({}),
    environment: environment.prefault({}),
  })
  .superRefine(({ environment: { network_mode }, ...phases }, context) => {
    for (const phase of ['agent', 'verifier'] as const)
      if ((phases[phase].network_mode ?? network_mode) !== network_mode)
        context.addIssue({
          code: 'custom',
          path: [phase, 'network_mode'],
          message: `a rollout keeps the network of environment.network_mode (${network_mode}) to its end`,
        });
  });

export type TaskConfig = z.output<typeof schema>;

/**
 * Reads `task.toml`.
 * @throws HarborError (`task_unsupported`) that names file, fields and values
 */
export async function parseTaskConfig(toml: string, file: string): Promise<TaskConfig> {
  const { parse } = await import('smol-toml');
  let document: unknown;
  try {
    document = parse(toml, { integersAsBigInt: 'asNeeded' });
  } catch (cause) {
    throw new HarborError('task_unsupported', `${file} is no TOML: ${String(cause)}`, { cause });
  }
  const { success, data, error } = schema.safeParse(document);
  if (success) return data;
  const problems = error.issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => `${shown(document, [...issue.path, key])} is not supported`)
      : [`${shown(document, issue.path)} is not supported: ${issue.message}`],
  );
  throw new HarborError('task_unsupported', `${file}: ${problems.join('; ')}`);
}

/** A field with its value. */
function shown(document: unknown, path: readonly PropertyKey[]): string {
  const value = path.reduce<unknown>(
    (at, name) => (typeof at === 'object' && at !== null ? Reflect.get(at, name) : undefined),
    document,
  );
  const json =
    JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? String(part) : part)) ?? 'absent';
  return `${path.join('.')} (${json.length > 200 ? `${json.slice(0, 200)}...` : json})`;
}

/**
 * Replaces values such as `${KEY}` and `${KEY:-default}` by variables of this process. A task may come from anybody, so it
 * gets those alone that `allowed` names.
 * @throws HarborError (`task_unsupported`)
 */
export function resolveVariables(
  env: Readonly<Record<string, string>>,
  { file, section, allowed }: { file: string; section: string; allowed: readonly string[] },
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).map(([name, value]) => {
      const [, variable, fallback] = /^\$\{([A-Za-z_]\w*)(?::-(.*))?\}$/s.exec(value) ?? [];
      if (variable === undefined) return [name, value];
      const own = process.env[variable];
      const found = own ?? fallback;
      const refused = (problem: string) =>
        new HarborError(
          'task_unsupported',
          `${file}: ${section}.env.${name} needs the environment variable ${variable}, ${problem}`,
        );
      if (own !== undefined && !allowed.includes(variable))
        throw refused(
          `which this task may not have: allow it with harborTasks(folder, { variables: ['${variable}'] })`,
        );
      if (found === undefined) throw refused('which is not set');
      return [name, found];
    }),
  );
}
