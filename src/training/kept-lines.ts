import { type RolloutGroup, toGroupRecords } from '../rollout/index.ts';

/** The lines of a group in a file: one for each seat; one without seats. */
export const linesOfGroup = (group: RolloutGroup) =>
  toGroupRecords(group)
    .map((record) => `${JSON.stringify(record)}\n`)
    .join('');

/** Most characters of lines that are kept. */
const maxKeptCharacters = 16 * 1024 ** 2;

/** Lines of groups that are written twice. Ended groups do not change. */
export class KeptLines {
  readonly #lines = new Map<RolloutGroup, string>();
  #characters = 0;

  /** The line of a group, which is kept if there is room. */
  make(group: RolloutGroup): string {
    const line = linesOfGroup(group);
    if (this.#characters + line.length <= maxKeptCharacters) {
      this.#lines.set(group, line);
      this.#characters += line.length;
    }
    return line;
  }

  /** The line of a group, which is no longer kept; undefined if it was not. */
  take(group: RolloutGroup): string | undefined {
    const kept = this.#lines.get(group);
    this.#lines.delete(group);
    this.#characters -= kept?.length ?? 0;
    return kept;
  }
}
