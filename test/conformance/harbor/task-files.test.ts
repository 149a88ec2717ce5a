import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import fc from 'fast-check';
import { HarborError } from 'martingale/environments';
import { stringify } from 'smol-toml';
import { beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { parseTaskConfig } from '../../../src/formats/harbor/task-config.ts';
import { goldenTasks, goldenTomlOf } from '../../formats/harbor/golden-tasks.ts';
import { testScale, testSeed } from '../../support/size.ts';
import { pythonEnvironment } from '../python-environment.ts';

let python: string | undefined;

beforeAll(async () => {
  const environment = await pythonEnvironment({
    what: "task files that Harbor's own models write",
    requirements: [
      ...['harbor==0.25.0', 'toml==0.10.2', 'pydantic==2.14.3', 'pydantic-core==2.50.4'],
      ...['annotated-types==0.8.0', 'typing-extensions', 'typing-inspection'],
    ],
    // Its models need no more.
    pipArguments: ['--no-deps'],
    minor: 12,
  });
  python = environment?.python;
}, 600_000);

const seconds = z.number().nullable();
const networkMode = z.string().nullable();
const list = z.array(z.unknown());
/** What of Harbor's own model decides what a rollout is. */
const modelSchema = z.object({
  steps: list.nullable(),
  artifacts: list,
  agent: z.object({ timeout_sec: seconds, user: z.unknown(), network_mode: networkMode }),
  verifier: z.object({
    timeout_sec: seconds,
    user: z.unknown(),
    env: z.record(z.string(), z.string()),
    network_mode: networkMode,
    environment_mode: z.string().nullable(),
    environment: z.unknown(),
    collect: list,
  }),
  environment: z.object({
    network_mode: z.string(),
    build_timeout_sec: seconds,
    docker_image: z.string().nullable(),
    os: z.string(),
    cpus: z.number().nullable(),
    memory_mb: z.number().nullable(),
    gpus: z.number().nullable(),
    tpu: z.unknown(),
    mcp_servers: list,
    env: z.record(z.string(), z.string()),
    skills_dir: z.string().nullable(),
    healthcheck: z.unknown(),
    workdir: z.string().nullable(),
  }),
});
type Model = z.output<typeof modelSchema>;
const answerSchema = z.array(
  z.union([
    z.object({ refusal: z.string() }),
    z.object({
      config: modelSchema,
      written: z.object({ text: z.string(), config: modelSchema }).nullable(),
    }),
  ]),
);

function harborReads(texts: readonly string[]): z.output<typeof answerSchema> {
  const script = join(import.meta.dirname, 'harbor-reads.py');
  const settings = { input: JSON.stringify(texts), maxBuffer: 2 ** 30 };
  return answerSchema.parse(JSON.parse(execFileSync(String(python), [script], settings).toString()));
}

/** The fields by which a task asks for what is not done here. */
function askedFor({ steps, artifacts, agent, verifier, environment }: Model): string[] {
  const { network_mode: network } = environment;
  const asked = {
    steps: (steps ?? []).length > 0,
    artifacts: artifacts.length > 0,
    'agent.network_mode': agent.network_mode !== null && agent.network_mode !== network,
    'verifier.network_mode': verifier.network_mode !== null && verifier.network_mode !== network,
    'verifier.environment_mode': verifier.environment_mode === 'separate',
    'verifier.environment': verifier.environment !== null,
    'verifier.collect': verifier.collect.length > 0,
    'environment.network_mode': network === 'allowlist',
    'environment.os': environment.os !== 'linux',
    'environment.gpus': (environment.gpus ?? 0) > 0,
    'environment.tpu': environment.tpu !== null,
    'environment.mcp_servers': environment.mcp_servers.length > 0,
    'environment.skills_dir': Boolean(environment.skills_dir),
    'environment.healthcheck': environment.healthcheck !== null,
  };
  return Object.entries(asked).flatMap(([field, isAsked]) => (isAsked ? [field] : []));
}

/** The fields that a refusal names: where two differ, only if each by itself is supported. */
function namedFirst(asked: string[]): string[] {
  const alone = asked.filter((field) => !/^(agent|verifier)\.network_mode$/.test(field));
  return alone.length > 0 ? alone : asked;
}

const userOf = ({ user }: { user?: unknown }) => (user === '' ? null : user);

/** What a rollout rests on. */
const meaning = ({ agent, verifier, environment }: Model) => ({
  agent: { timeout_sec: agent.timeout_sec, user: userOf(agent) },
  verifier: { timeout_sec: verifier.timeout_sec, user: userOf(verifier), env: verifier.env },
  environment: {
    network_mode: environment.network_mode,
    build_timeout_sec: environment.build_timeout_sec,
    docker_image: environment.docker_image || null,
    cpus: environment.cpus,
    memory_mb: environment.memory_mb,
    env: environment.env,
    workdir: environment.workdir || null,
  },
});

async function ourMeaning(toml: string) {
  const { agent, verifier, environment } = await parseTaskConfig(toml, 'task.toml');
  return {
    agent: { timeout_sec: agent.timeout_sec ?? null, user: agent.user ?? null },
    verifier: { timeout_sec: verifier.timeout_sec, user: verifier.user ?? null, env: verifier.env },
    environment: {
      network_mode: environment.network_mode,
      build_timeout_sec: environment.build_timeout_sec,
      docker_image: environment.docker_image ?? null,
      cpus: environment.cpus ?? null,
      memory_mb: environment.memory_mb ?? null,
      env: environment.env,
      workdir: environment.workdir ?? null,
    },
  };
}

const options = <const Value>(...values: Value[]) => fc.constantFrom(...values);
const variables = fc.dictionary(fc.stringMatching(/^[A-Z]{1,4}$/), fc.string());
const phase = {
  timeout_sec: options(0.5, 60, 900),
  user: options<string | number>('root', 'agent', '', 0, 1000),
  network_mode: options('public', 'no-network'),
};
const size = options('2G', '1.5g', ' 512M ', '1048576K', '0.25G');
const environment = fc
  .record(
    {
      build_timeout_sec: options(30, 600.5),
      docker_image: options('', 'ubuntu:24.04'),
      os: options('linux', 'Linux', 'LINUX', 'windows'),
      cpus: options(1, 2.5),
      memory_mb: options(512, 4096),
      memory: size,
      storage_mb: options(512, 10_240),
      storage: size,
      gpus: options(0, 1),
      gpu_types: options<string[]>([], ['H100']),
      tpu: options({ type: 'v6e', topology: '2x2' }),
      mcp_servers: options<unknown[]>([], [{ name: 'a', url: 'http://a' }]),
      env: variables,
      skills_dir: options('', '/skills'),
      healthcheck: options({ command: 'true' }),
      workdir: options('', '/w'),
      network_mode: options('public', 'no-network', 'allowlist'),
      allow_internet: fc.boolean(),
    },
    { requiredKeys: [] },
  )
  // Most fields are rare, so that many tasks are plain enough to be run.
  .chain((all) => fc.subarray(Object.entries(all), { maxLength: 6 }).map((some) => Object.fromEntries(some)));
const task = fc.record(
  {
    schema_version: options('1.0', '1.3', '1.4'),
    source: fc.string(),
    multi_step_reward_strategy: options('mean', 'final'),
    steps: fc.oneof({ weight: 4, arbitrary: fc.constant([]) }, options([{ name: 'first' }])),
    artifacts: fc.oneof({ weight: 4, arbitrary: fc.constant([]) }, options(['/logs/out.txt'])),
    task: options({ name: 'org/name', description: 'd', authors: [{ name: 'a' }], keywords: ['k'] }),
    metadata: fc.dictionary(fc.string({ minLength: 1 }), fc.oneof(fc.string(), fc.integer(), fc.boolean())),
    agent: fc.record(phase, { requiredKeys: [] }),
    verifier: fc.record(
      {
        ...phase,
        env: variables,
        environment_mode: options('shared', 'shared', 'shared', 'separate'),
        collect: fc.oneof({ weight: 4, arbitrary: fc.constant([]) }, options([{ command: 'true' }])),
      },
      { requiredKeys: [] },
    ),
    environment,
    solution: fc.record({ env: variables }),
  },
  { requiredKeys: [] },
);

it('a task means what it means to Harbor, as it was written and as Harbor writes it again', {
  tags: ['long'],
  timeout: 600_000,
}, async ({ skip }) => {
  if (!python) return skip('Harbor cannot be installed');
  const texts = fc
    .sample(task, { numRuns: 2000 * testScale, seed: testSeed })
    .map((given) => stringify(given));
  let run = 0;
  for (const [index, answer] of harborReads(texts).entries()) {
    if ('refusal' in answer) continue;
    for (const { text, config } of [
      { text: texts[index] ?? '', config: answer.config },
      ...(answer.written ? [answer.written] : []),
    ]) {
      const asked = askedFor(config);
      const told = await ourMeaning(text).catch((error: unknown) => {
        if (!HarborError.isInstance(error)) throw error;
        return error.message;
      });
      if (asked.length === 0) {
        expect(told, text).toEqual(meaning(config));
        run++;
      } else for (const field of namedFirst(asked)) expect(told, text).toContain(field);
    }
  }
  expect(run).toBeGreaterThan(texts.length / 10);
});

it('the golden task files are what Harbor writes', { tags: ['long'] }, async ({ skip }) => {
  if (!python) return skip('Harbor cannot be installed');
  const names = Object.keys(goldenTasks);
  const answers = harborReads(names.map((name) => stringify(goldenTasks[name] ?? {})));
  for (const [index, answer] of answers.entries())
    await expect('written' in answer ? answer.written?.text : answer.refusal).toMatchFileSnapshot(
      goldenTomlOf(names[index] ?? ''),
    );
});
