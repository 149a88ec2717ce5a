import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, join, posix, resolve } from 'node:path';
import { hasCode } from '../../util/error.ts';
import { type Copy, readDockerfile } from './dockerfile.ts';
import { HarborError } from './errors.ts';
import type { SandboxImage } from './sandbox/sandbox.ts';
import { parseTaskConfig, resolveVariables, type TaskConfig } from './task-config.ts';
import { checkFiles } from './task-files.ts';

/** A task folder that has been read and can be run. */
export interface Task {
  name: string;
  folder: string;
  instruction: string;
  config: TaskConfig;
  /** Null: its image's. */
  workdir: string | null;
  image: SandboxImage;
  env: Readonly<Record<string, string>>;
  verifierEnv: Readonly<Record<string, string>>;
  /** What is put into the sandbox before the agent begins. */
  copies: readonly Copy[];
}

interface HowToRead {
  buildsImages: boolean;
  /** Variables of this process that tasks may have. */
  variables: readonly string[];
}

/**
 * Reads the task folders of a folder, by name; a folder with a `task.toml` is one task.
 * @throws HarborError (`task_unsupported`)
 */
export async function readTasks(folder: string, how: HowToRead): Promise<Task[]> {
  const at = resolve(folder);
  if (await exists(join(at, 'task.toml'))) return [await readTask(at, how)];
  const entries = await readdir(at).catch((cause: unknown) => {
    throw new HarborError('task_unsupported', `The folder ${folder} cannot be read: ${String(cause)}`, {
      cause,
    });
  });
  const tasks: Task[] = [];
  const refusals: HarborError[] = [];
  for (const name of entries.sort())
    if (await exists(join(at, name, 'task.toml')))
      try {
        tasks.push(await readTask(join(at, name), how));
      } catch (error) {
        if (!HarborError.isInstance(error)) throw error;
        refusals.push(error);
      }
  if (refusals.length > 0) throw refusedTasks(folder, refusals, tasks.length);
  if (tasks.length === 0)
    throw new HarborError('task_unsupported', `${folder} has no task: no folder in it has a task.toml.`);
  return tasks;
}

/** Tasks that an error names; it counts the others. */
const maxShown = 20;

function refusedTasks(folder: string, refusals: readonly HarborError[], others: number): HarborError {
  const [first] = refusals;
  if (first && refusals.length + others === 1) return first;
  const more = refusals.length - maxShown;
  return new HarborError(
    'task_unsupported',
    [
      `${refusals.length} of ${refusals.length + others} tasks of ${folder} cannot be run here:`,
      ...refusals.slice(0, maxShown).map(({ message }) => `- ${message}`),
      ...(more > 0 ? [`- and ${more} more`] : []),
      others > 0 ? `To run the other ${others}, move these folders elsewhere.` : 'None is left to run.',
    ].join('\n'),
    { cause: first },
  );
}

async function readTask(folder: string, { buildsImages, variables: allowed }: HowToRead): Promise<Task> {
  await checkFiles(folder);
  const file = join(folder, 'task.toml');
  const config = await parseTaskConfig(await textOf(file), file);
  const instruction = await textOf(join(folder, 'instruction.md'));
  await textOf(join(folder, 'tests/test.sh'));
  for (const name of ['docker-compose.yaml', 'docker-compose.yml'])
    if (await exists(join(folder, 'environment', name)))
      throw new HarborError('task_unsupported', `${folder}: environment/${name} is not supported.`);
  const { environment, agent, verifier } = config;
  const image = {
    name: environment.docker_image ?? null,
    folder: join(folder, 'environment'),
    buildTimeoutMs: environment.build_timeout_sec * 1000,
    cpus: environment.cpus ?? null,
    memoryMb: environment.memory_mb ?? null,
    storageMb: environment.storage_mb ?? null,
  };
  const dockerfile = join(folder, 'environment/Dockerfile');
  const hasDockerfile = await exists(dockerfile);
  // Harbor puts them into the working directory of an image that is not built from them.
  const givesFiles = image.name !== null && !hasDockerfile && (await exists(image.folder));
  const task = {
    ...{ name: basename(folder), folder, instruction, config, image },
    env: resolveVariables(environment.env, { file, section: 'environment', allowed }),
    verifierEnv: resolveVariables(verifier.env, { file, section: 'verifier', allowed }),
  };
  if (buildsImages) {
    if (image.name === null && !hasDockerfile)
      throw new HarborError(
        'task_unsupported',
        `${folder} has neither environment/Dockerfile nor environment.docker_image: its container has no image.`,
      );
    const workdir = environment.workdir ?? null;
    return { ...task, workdir, copies: givesFiles ? [{ from: '.', to: workdir ?? '.' }] : [] };
  }
  for (const [name, { user }] of Object.entries({ agent, verifier }))
    if (user !== undefined && user !== 'root' && user !== 0)
      throw new HarborError('task_unsupported', `${file}: ${name}.user (${user}) needs dockerSandbox().`);
  const built = hasDockerfile
    ? readDockerfile(await textOf(dockerfile), dockerfile)
    : { workdir: null, copies: [] };
  const workdir = posix.normalize(environment.workdir ?? built.workdir ?? '/app');
  return { ...task, workdir, copies: givesFiles ? [{ from: '.', to: workdir }] : built.copies };
}

async function textOf(file: string): Promise<string> {
  return await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new HarborError('task_unsupported', `${file} cannot be read: ${String(cause)}`, { cause });
  });
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    (error: unknown) => {
      if (hasCode(error, 'ENOENT', 'ENOTDIR')) return false;
      throw error;
    },
  );
}
