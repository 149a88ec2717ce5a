import { groupFiles, openGroupTokens, type ReadGroupTokens, readRun } from '../training/index.ts';
import type {
  Flips,
  GroupDetail,
  RolloutDetail,
  RunDetail,
  RunRow,
  RunsList,
  StepDetail,
  Timeline,
} from './api.ts';
import { EvaluationViews } from './evaluations.ts';
import { type FoundRun, findRuns } from './find-runs.ts';
import { flipsOf, type Side } from './flips.ts';
import { advantageOptions, groupDetail, rolloutDetail } from './group-detail.ts';
import { type GroupFacts, GroupFiles, readGroup } from './group-file.ts';
import { type Opening, openingOf } from './opening.ts';
import { readDetail } from './run-detail.ts';
import { readRow } from './run-row.ts';
import { runSignature } from './run-signature.ts';
import { type FoundGroups, stepDetail, timelineOf } from './step-detail.ts';
import { notFound } from './view-error.ts';
import { inOrder, nameOfWhich, whichOf } from './which.ts';

/** Everything that is shown of the runs in some folders, read from their files at each call. Writes nothing there. */
export class RunViews {
  readonly folders: readonly string[];
  readonly evaluations: EvaluationViews;
  readonly #files = new GroupFiles();
  readonly #rows = new Map<string, { signature: string; row: RunRow }>();

  constructor(folders: readonly string[]) {
    this.folders = folders;
    this.evaluations = new EvaluationViews(folders);
  }

  async list(): Promise<Omit<RunsList, 'service'>> {
    const runs = await Promise.all((await findRuns(this.folders)).map((run) => this.#row(run)));
    return {
      folders: [...this.folders],
      runs: runs.sort((a, b) => (b.started ?? b.changed).localeCompare(a.started ?? a.changed)),
    };
  }

  /** @throws ViewError if there is no such run. */
  async find(id: string): Promise<FoundRun> {
    const run = (await findRuns(this.folders)).find((found) => found.id === id);
    if (run) return run;
    throw notFound(`There is no run "${id}" in ${this.folders.join(', ')}.`);
  }

  async run(id: string): Promise<RunDetail> {
    return readDetail(await this.find(id));
  }

  async step(id: string, which: string): Promise<StepDetail> {
    return stepDetail(await this.#groups(id, which));
  }

  async timeline(id: string, which: string): Promise<Timeline> {
    return timelineOf(await this.#groups(id, which));
  }

  async group(id: string, which: string, group: number): Promise<GroupDetail> {
    return groupDetail(await this.#shown(id, which, group));
  }

  async rollout(id: string, which: string, group: number, rollout: number): Promise<RolloutDetail> {
    const shown = await this.#shown(id, which, group);
    const count = shown.record.rollouts.length;
    if (rollout >= count)
      throw notFound(`Group ${group} has ${count} rollouts, from 0: there is no ${rollout}.`);
    return rolloutDetail(shown, rollout);
  }

  /** The answers of a step, by their addresses: its lists, and with `groups` all groups and rollouts, each group read once. */
  async *answersOf(
    id: string,
    which: string,
    { groups }: { groups: boolean },
  ): AsyncGenerator<{ path: string; answer: object }> {
    const found = await this.#groups(id, which);
    const path = `runs/${id}/steps/${which}`;
    yield { path, answer: await stepDetail(found) };
    yield { path: `${path}/timeline`, answer: await timelineOf(found) };
    if (!groups) return;
    const beside = await besideGroups(found);
    for (const facts of found.file.groups) {
      const shown = await shownOf(found, facts, beside);
      const own = `${path}/groups/${facts.group}`;
      yield { path: own, answer: groupDetail(shown) };
      for (const { rollout } of facts.rollouts)
        yield { path: `${own}/rollouts/${rollout}`, answer: rolloutDetail(shown, rollout) };
    }
  }

  async flips(a: { id: string; which: string }, b: { id: string; which: string }): Promise<Flips> {
    return flipsOf(await this.#side(a.id, a.which), await this.#side(b.id, b.which));
  }

  /** How a chat with a model begins as in its newest run; null if no run here trained it. */
  async opening(model: string): Promise<Opening | null> {
    return openingOf((await this.list()).runs, model);
  }

  async #row(run: FoundRun): Promise<RunRow> {
    const signature = await runSignature(run.folder);
    const known = this.#rows.get(run.folder);
    if (known?.signature === signature) return { ...known.row, id: run.id, name: run.name };
    const row = await readRow(run);
    this.#rows.set(run.folder, { signature, row });
    return row;
  }

  async #groups(id: string, which: string): Promise<FoundGroups> {
    const run = await this.find(id);
    const files = await groupFiles(run.folder);
    const names = inOrder([...files.keys()].map(whichOf));
    const path = files.get(nameOfWhich(which));
    if (path === undefined)
      throw notFound(
        `The run "${id}" has no groups of "${which}"${names.length > 0 ? `, but of ${listOf(names)}` : ' yet'}.`,
      );
    const step = /^\d+$/.test(which) ? Number(which) : null;
    return { run, which, step, file: await this.#files.read(path), names };
  }

  async #shown(id: string, which: string, group: number) {
    const found = await this.#groups(id, which);
    const facts: GroupFacts | undefined = found.file.groups.find((one) => one.group === group);
    if (!facts) throw notFound(`"${which}" of the run "${id}" has no group ${group}.`);
    return shownOf(found, facts, await besideGroups(found));
  }

  async #side(id: string, which: string): Promise<Side> {
    const found = await this.#groups(id, which);
    const reader = await readRun(found.run.folder);
    const policy =
      found.step === null
        ? (await reader.evaluations()).find(({ name }) => name === which)?.policy
        : (await reader.reports()).find(({ step }) => step === found.step)?.policy;
    return { found, policy: policy ?? null };
  }
}

/** What all groups of a step are shown with. */
async function besideGroups({ run, step }: FoundGroups) {
  const config = (await (await readRun(run.folder)).config()) ?? {};
  const readTokens: ReadGroupTokens =
    step === null ? async () => null : await openGroupTokens(run.folder, step);
  return { options: advantageOptions(config, step ?? 0), readTokens };
}

/** What is shown of a group of a step. */
async function shownOf(
  found: FoundGroups,
  facts: GroupFacts,
  { options, readTokens }: Awaited<ReturnType<typeof besideGroups>>,
) {
  const record = await readGroup(found.file.path, facts);
  return { found, facts, record, options, tokens: await readTokens(facts.group) };
}

const listOf = (names: readonly string[]): string =>
  names.length <= 8 ? names.join(', ') : `${names.slice(0, 3).join(', ')}, …, ${names.slice(-3).join(', ')}`;
