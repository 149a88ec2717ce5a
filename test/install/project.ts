import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { snippetsOf, textOf } from '../readme/documents.ts';
import { root } from '../support/programs.ts';

export interface Ended {
  code: number;
  stdout: string;
  stderr: string;
}

/** Settings of npm that the project inherits: only those that say where packages come from. */
const kept = /^npm_config_(registry|cache|cafile|userconfig|globalconfig|proxy|https_proxy|noproxy)$/i;
const outside = Object.fromEntries(
  Object.entries(process.env).filter(
    ([name]) => !/^(npm_|INIT_CWD|NODE_OPTIONS)/i.test(name) || kept.test(name),
  ),
);

/** A folder outside the repository, in which a reader's commands run. */
export class Project {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async make(): Promise<Project> {
    return new Project(await mkdtemp(join(tmpdir(), 'martingale-project-')));
  }

  /** Runs a shell command with any exit code. `bin` is searched before the rest of `PATH`. */
  run(line: string, { bin, env }: { bin?: string; env?: Record<string, string> } = {}): Promise<Ended> {
    const path = [bin, process.env.PATH].filter((part) => part !== undefined).join(':');
    return new Promise((resolve) => {
      execFile(
        'sh',
        ['-c', line],
        { cwd: this.folder, env: { ...outside, PATH: path, ...env } },
        (error, stdout, stderr) =>
          resolve({ code: typeof error?.code === 'number' ? error.code : error ? 1 : 0, stdout, stderr }),
      );
    });
  }

  /** Runs a shell command that must succeed; returns its standard output. */
  async succeed(line: string, options?: { bin?: string; env?: Record<string, string> }): Promise<string> {
    const { code, stdout, stderr } = await this.run(line, options);
    if (code !== 0) throw new Error(`${line}: ${code}\n${stdout}\n${stderr}`);
    return stdout;
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** Packs the package into the folder; returns its path. */
export async function pack(into: Project): Promise<string> {
  const name = await into.succeed(`npm pack ${root} --silent`);
  return join(into.folder, name.trim().split('\n').at(-1) ?? '');
}

/** The commands of the guide's blocks about a project of one's own, with the path of the package. */
export async function guideCommands(tarball: string): Promise<string[][]> {
  const text = await textOf('docs/guide.md');
  const section = /^## In a project of your own\n(.*?)^## /ms.exec(text)?.[1] ?? '';
  return [...section.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = '']) =>
    block
      .trim()
      .split('\n')
      .map((line) => line.replace(/path\/to\/martingale-\S+\.tgz/, tarball)),
  );
}

/** README's first program, shortened, which prints the step and the reward of each step. */
export async function firstProgram(steps: number): Promise<string> {
  const program = (await snippetsOf('README.md')).find(({ note }) => note === 'run')?.code ?? '';
  const print =
    "onEvent: (event) => event.type === 'step' && console.log(event.step, event.reward.toFixed(2))";
  return program.replace('steps: 40', `steps: ${steps}, ${print}`);
}

/** Whether the package registry is reachable. If not, prints a message to standard error. */
export async function hasRegistry(project: Project): Promise<boolean> {
  const { code, stderr } = await project.run('npm view zod@4 name --fetch-retries=1');
  if (code === 0) return true;
  console.warn(`NOT RUN: no project is made from the package, as npm reaches no registry. ${stderr}`);
  return false;
}
