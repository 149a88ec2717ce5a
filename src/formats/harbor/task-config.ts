import { posix } from 'node:path';
import { z } from 'zod';
import { HarborError } from './errors.ts';

const variables = z.record(z.string(), z.string()).default({});
const user = z.union([z.string().min(1), z.number().int().min(0)]).optional();
const seconds = z.number().positive();
/** What says something about the task, and changes nothing in a rollout. */
const anything = z.unknown().optional();

/** What of `task.toml` is honoured. All other fields are refused, as a rollout without them would be another task. */
const schema = z.strictObject({
  schema_version: z.enum(['1.0', '1.1', '1.2', '1.3', '1.4']).optional(),
  version: z.enum(['1.0', '1.1', '1.2', '1.3', '1.4']).optional(),
  task: anything,
  metadata: anything,
  source: anything,
  solution: anything,
  agent: z.strictObject({ timeout_sec: seconds.optional(), user }).default({}),
  verifier: z
    .strictObject({
      timeout_sec: seconds.default(600),
      env: variables,
      user,
      environment_mode: z.literal('shared').optional(),
    })
    .default({ timeout_sec: 600, env: {} }),
  environment: z
    .strictObject({
      docker_image: z.string().optional(),
      build_timeout_sec: seconds.default(600),
      os: z.literal('linux').optional(),
      cpus: z.number().positive().optional(),
      memory_mb: z.number().int().positive().optional(),
      storage_mb: anything,
      memory: anything,
      storage: anything,
      gpus: z.literal(0).optional(),
      env: variables,
      workdir: z.string().startsWith('/').optional(),
      network_mode: z.enum(['public', 'no-network']).default('public'),
      allow_internet: z.boolean().optional(),
    })
    .default({ env: {}, network_mode: 'public', build_timeout_sec: 600 }),
});

export type TaskConfig = z.output<typeof schema>;

/**
 * Reads `task.toml`.
 * @throws HarborError (`task_unsupported`) that names file, field and value
 */
export async function parseTaskConfig(text: string, file: string): Promise<TaskConfig> {
  const { parse } = await import('smol-toml');
  let document: unknown;
  try {
    document = parse(text);
  } catch (cause) {
    throw new HarborError('task_unsupported', `${file} is no TOML: ${String(cause)}`, { cause });
  }
  const { success, data, error } = schema.safeParse(document);
  if (success) return data;
  const [issue] = error.issues;
  const path = issue?.path ?? [];
  const value = path.reduce<unknown>(
    (at, name) => (typeof at === 'object' && at !== null ? Reflect.get(at, name) : undefined),
    document,
  );
  const shown = issue?.code === 'unrecognized_keys' ? '' : ` (${JSON.stringify(value)})`;
  throw new HarborError(
    'task_unsupported',
    `${file}: ${path.join('.') || 'the table'}${shown} is not supported: ${issue?.message}`,
  );
}

/** Replaces values such as `${KEY}` and `${KEY:-default}` by variables of this process. */
export function resolveVariables(
  env: Readonly<Record<string, string>>,
  file: string,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).map(([name, value]) => {
      const [, variable, fallback] = /^\$\{([A-Za-z_]\w*)(?::-(.*))?\}$/s.exec(value) ?? [];
      if (variable === undefined) return [name, value];
      const found = process.env[variable] ?? fallback;
      if (found !== undefined) return [name, found];
      throw new HarborError(
        'task_unsupported',
        `${file}: env.${name} needs the environment variable ${variable}, which is not set`,
      );
    }),
  );
}

export interface Copy {
  /** Relative to `environment/`. */
  from: string;
  to: string;
}

/**
 * What of a Dockerfile can be done without building an image: `FROM` is taken for this machine's programs, `WORKDIR`
 * and `COPY` are done.
 * @throws HarborError (`task_unsupported`) that names the first other line
 */
export function readDockerfile(text: string, file: string): { workdir: string | null; copies: Copy[] } {
  let workdir: string | null = null;
  const copies: Copy[] = [];
  for (const line of text.split('\n').map((raw) => raw.trim())) {
    if (line === '' || line.startsWith('#')) continue;
    const [word = '', ...rest] = line.split(/\s+/);
    const [first = '', second = ''] = rest;
    const at = workdir ?? '/';
    const isPlain = !/[$"'[\\*?]|--/.test(line);
    if (word.toUpperCase() === 'FROM' && copies.length === 0 && workdir === null) continue;
    if (word.toUpperCase() === 'WORKDIR' && isPlain && rest.length === 1) workdir = posix.resolve(at, first);
    else if (
      word.toUpperCase() === 'COPY' &&
      isPlain &&
      rest.length === 2 &&
      !first.split('/').includes('..')
    )
      copies.push({ from: first, to: posix.resolve(at, second) + (/(^|\/)\.?$/.test(second) ? '/' : '') });
    else
      throw new HarborError(
        'task_unsupported',
        `${file}: "${line}" needs dockerSandbox(): without it, only FROM, WORKDIR and COPY of one path are done`,
      );
  }
  return { workdir, copies };
}
