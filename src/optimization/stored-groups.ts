import { join } from 'node:path';
import { fromGroupRecords, parseGroupRecord, type RolloutGroup, toGroupRecords } from '../rollout/index.ts';
import { trajectoriesFile } from '../training/index.ts';
import { DurableAppends, storing } from '../util/durable-files.ts';
import { resumeLines } from '../util/json-lines.ts';

/** The groups of one piece of work in `trajectories/`: kept as soon as they have ended, and read back by a later call. */
export class StoredGroups {
  /** Groups of earlier calls, by index. */
  readonly kept: ReadonlyMap<number, RolloutGroup>;
  readonly #appends: DurableAppends;

  private constructor(path: string, kept: ReadonlyMap<number, RolloutGroup>) {
    this.kept = kept;
    this.#appends = new DurableAppends(path);
  }

  static async open(runDirectory: string, name: string): Promise<StoredGroups> {
    const path = join(runDirectory, trajectoriesFile(name));
    const lines: string[] = [];
    await storing(path, async () => {
      for await (const line of resumeLines(path)) lines.push(line);
    });
    return new StoredGroups(path, fromGroupRecords(lines.map(parseGroupRecord)));
  }

  /** Resolves when the group is durable. */
  add(group: RolloutGroup): Promise<void> {
    return this.#appends.append(() =>
      toGroupRecords(group)
        .map((record) => `${JSON.stringify(record)}\n`)
        .join(''),
    );
  }
}
