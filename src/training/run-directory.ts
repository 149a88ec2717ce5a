import { mkdir, open, readdir, rename } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { RolloutGroup } from '../rollout/index.ts';
import { RunOptionError } from './errors.ts';
import type { RunEvent, StepReport } from './run-event.ts';

/** What is on disk before a training job is asked for, so that asking again gives the same job. */
export interface JobRecord {
  step: number;
  idempotencyKey: string;
  modelId: string;
  policy: string;
  config: object;
  /** File of the groups, relative to the run directory. */
  trajectories: string;
  /** Absent until the service has answered. */
  jobId?: string;
}

/**
 * The record of a run on disk:
 *
 *     config.json                   what was asked for
 *     metrics.jsonl                 a StepReport a line
 *     events.jsonl                  a RunEvent with its time a line (but not the progress of rollouts)
 *     trajectories/step-0000.jsonl  a group a line: the body that is trained on, its scenario, and what failed
 *     trajectories/before.jsonl     the same of each validation, by its name
 *     jobs/step-0000.json           the training job's request, by reference
 *     summary.json                  how the run ended
 *
 * Whole files appear under their name only when complete; lines are appended.
 */
export class RunDirectory {
  readonly path: string;
  /** Appends in order, one at a time; the first failure is kept for `settle`. */
  #appends: Promise<void> = Promise.resolve();

  private constructor(path: string) {
    this.path = path;
  }

  /** @throws RunOptionError where the folder exists and is not empty. */
  static async create(path: string): Promise<RunDirectory> {
    const absolute = resolve(path);
    await mkdir(absolute, { recursive: true });
    if ((await readdir(absolute)).length > 0) {
      throw new RunOptionError(
        `The run directory ${absolute} is not empty. Choose another, or move it away.`,
      );
    }
    await mkdir(join(absolute, 'trajectories'));
    await mkdir(join(absolute, 'jobs'));
    return new RunDirectory(absolute);
  }

  async writeConfig(config: object): Promise<void> {
    await this.#writeWhole('config.json', [format(config)]);
  }

  async writeSummary(summary: object): Promise<void> {
    await this.#writeWhole('summary.json', [format(summary)]);
  }

  async writeJob(job: JobRecord): Promise<void> {
    await this.#writeWhole(`jobs/${stepName(job.step)}.json`, [format(job)]);
  }

  /** Durable when it returns. Gives the file's path relative to the run directory. */
  async writeTrajectories(name: string, groups: readonly RolloutGroup[]): Promise<string> {
    const file = `trajectories/${name}.jsonl`;
    await this.#writeWhole(file, groupLines(groups));
    return file;
  }

  appendMetrics(report: StepReport): void {
    this.#append('metrics.jsonl', report);
  }

  appendEvent(event: RunEvent): void {
    this.#append('events.jsonl', { time: new Date().toISOString(), ...event });
  }

  /** Waits until all that was appended is written. @throws the first error that an append met. */
  async settle(): Promise<void> {
    await this.#appends;
  }

  #append(file: string, value: object): void {
    const line = `${JSON.stringify(value)}\n`;
    this.#appends = this.#appends.then(async () => {
      await using handle = await open(join(this.path, file), 'a');
      await handle.appendFile(line);
    });
    // Reported by `settle`; until then it must not count as unhandled.
    this.#appends.catch(() => undefined);
  }

  async #writeWhole(file: string, pieces: Iterable<string>): Promise<void> {
    const path = join(this.path, file);
    const partial = `${path}.partial`;
    {
      await using handle = await open(partial, 'w');
      for (const piece of pieces) await handle.appendFile(piece);
      await handle.sync();
    }
    await rename(partial, path);
    // The new name is durable once its folder is; Windows has no such call and needs none.
    if (process.platform === 'win32') return;
    await using folder = await open(dirname(path), 'r');
    await folder.sync();
  }
}

/** Default place of a run: `runs/<ISO date>-<name>`, with characters that every file system takes. */
export function defaultRunDirectory(name: string, now = new Date()): string {
  const date = now.toISOString().replaceAll(':', '-');
  return join('runs', `${date}-${name.replaceAll(/[^A-Za-z0-9._-]+/g, '-')}`);
}

/** One at a time, so that the event loop gets a turn between groups. */
function* groupLines(groups: readonly RolloutGroup[]): Generator<string> {
  for (const group of groups) yield groupLine(group);
}

function groupLine(group: RolloutGroup): string {
  const failures = group.rollouts.flatMap((rollout) =>
    rollout.status === 'completed'
      ? []
      : [
          {
            rollout: rollout.index,
            status: rollout.status,
            ...rollout.failure,
            trajectory: rollout.trajectory.toRecord(),
          },
        ],
  );
  const line = { scenario: group.scenario, ...group.toTrajectoryGroup().toBody(), failures };
  return `${JSON.stringify(line)}\n`;
}

/** `step-0000`: names sort as steps do. */
export function stepName(step: number): string {
  return `step-${String(step).padStart(4, '0')}`;
}

function format(value: object): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}
