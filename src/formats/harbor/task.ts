import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, join, posix, resolve } from 'node:path';
import { hasCode } from '../../util/error.ts';
import { HarborError } from './errors.ts';
import {
  type Copy,
  parseTaskConfig,
  readDockerfile,
  resolveVariables,
  type TaskConfig,
} from './task-config.ts';

/** A task folder that has been read and can be run. */
export interface Task {
  name: string;
  folder: string;
  instruction: string;
  config: TaskConfig;
  workdir: string;
  env: Readonly<Record<string, string>>;
  verifierEnv: Readonly<Record<string, string>>;
  copies: readonly Copy[];
}

/**
 * Reads the task folders of a folder, by name; a folder with a `task.toml` is one task.
 * @throws HarborError (`task_unsupported`)
 */
export async function readTasks(folder: string): Promise<Task[]> {
  const at = resolve(folder);
  if (await exists(join(at, 'task.toml'))) return [await readTask(at)];
  const entries = await readdir(at).catch((cause: unknown) => {
    throw new HarborError('task_unsupported', `the folder ${folder} cannot be read: ${String(cause)}`, {
      cause,
    });
  });
  const tasks: Task[] = [];
  for (const name of entries.sort())
    if (await exists(join(at, name, 'task.toml'))) tasks.push(await readTask(join(at, name)));
  if (tasks.length === 0)
    throw new HarborError('task_unsupported', `${folder} has no task: no folder in it has a task.toml`);
  return tasks;
}

async function readTask(folder: string): Promise<Task> {
  const file = join(folder, 'task.toml');
  const config = await parseTaskConfig(await textOf(file), file);
  const instruction = await textOf(join(folder, 'instruction.md'));
  await textOf(join(folder, 'tests/test.sh'));
  for (const name of ['docker-compose.yaml', 'docker-compose.yml'])
    if (await exists(join(folder, 'environment', name)))
      throw new HarborError('task_unsupported', `${folder}: environment/${name} is not supported`);
  const dockerfile = join(folder, 'environment/Dockerfile');
  const built = (await exists(dockerfile))
    ? readDockerfile(await textOf(dockerfile), dockerfile)
    : { workdir: null, copies: [] };
  return {
    ...{ name: basename(folder), folder, instruction, config },
    workdir: posix.normalize(config.environment.workdir ?? built.workdir ?? '/app'),
    env: resolveVariables(config.environment.env, file),
    verifierEnv: resolveVariables(config.verifier.env, file),
    copies: built.copies,
  };
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
