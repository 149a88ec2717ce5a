import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type ComparedScores, compare, readEvaluation } from '../evaluation/index.ts';
import { readRun, stepName } from '../training/index.ts';
import { messageOf } from '../util/error.ts';
import { isObject } from '../util/json.ts';
import type { EvaluationComparison, EvaluationsList, KeptEvaluation } from './api.ts';
import { type FoundRun, findEvaluations, findRuns } from './find-runs.ts';
import { notFound, ViewError } from './view-error.ts';

interface FoundEvaluation extends KeptEvaluation {
  environment: string;
  folder: string;
}

/** Rows of the comparison that is shown first. */
const maxChosen = 8;
/** Evaluations whose scores are kept in memory. */
const maxKept = 32;

/** The evaluations of runs, and those that `evaluate({ directory })` left below some folders. */
export class EvaluationViews {
  readonly #folders: readonly string[];
  readonly #kept = new Map<string, { signature: string; scores: Promise<ComparedScores> }>();

  constructor(folders: readonly string[]) {
    this.#folders = folders;
  }

  async list(): Promise<EvaluationsList> {
    const byEnvironment = Map.groupBy(await this.#find(), ({ environment }) => environment);
    return {
      environments: [...byEnvironment].map(([environment, found]) => ({
        environment,
        evaluations: found.map(({ id, policy, run, which }) => ({ id, policy, run, which })),
        chosen: chosenOf(found).map(({ id }) => id),
      })),
    };
  }

  /** @throws ViewError if one is not there, or if they cannot be compared. */
  async compare(ids: readonly string[]): Promise<EvaluationComparison> {
    const found = await this.#find();
    const chosen = ids.map((id) => {
      const one = found.find((other) => other.id === id);
      if (one) return one;
      throw notFound(`There is no evaluation "${id}" in ${this.#folders.join(', ')}.`);
    });
    const problems: string[] = [];
    const read = await Promise.all(
      chosen.map(({ id, folder }) =>
        this.#scores(folder).then(
          (evaluation) => [{ name: id, evaluation }],
          (error: unknown) => {
            problems.push(`${id}: ${messageOf(error)}`);
            return [];
          },
        ),
      ),
    );
    const evaluations = read.flat();
    if (evaluations.length < 2) return { table: null, problems };
    const table = await compare(evaluations).catch((error: unknown) => {
      throw new ViewError('bad_request', messageOf(error));
    });
    return { table, problems };
  }

  /** Folder of an evaluation of a run. @throws ViewError if there is none. */
  async folderOf(run: FoundRun, which: string): Promise<string> {
    const found = await evaluationsOfRun(run);
    const one = found.find((other) => other.which === which);
    if (one) return one.folder;
    const names = found.map((other) => other.which).join(', ');
    throw notFound(
      `The run "${run.id}" has no evaluation "${which}"${names === '' ? '' : `, but ${names}`}.`,
    );
  }

  async #find(): Promise<FoundEvaluation[]> {
    const ofRuns = await Promise.all((await findRuns(this.#folders)).map(evaluationsOfRun));
    const others = await Promise.all(
      (await findEvaluations(this.#folders)).map(async ({ id, folder }) => {
        const header = await readHeader(folder);
        return header ? [{ ...header, id, run: null, which: null, folder }] : [];
      }),
    );
    return [...ofRuns.flat(), ...others.flat()];
  }

  async #scores(folder: string): Promise<ComparedScores> {
    const files = ['evaluation.json', 'groups.jsonl'].map((name) => stat(join(folder, name)));
    const signature = (await Promise.all(files)).map(({ size, mtimeMs }) => `${size} ${mtimeMs}`).join(' ');
    const known = this.#kept.get(folder);
    this.#kept.delete(folder);
    const entry = known?.signature === signature ? known : { signature, scores: readEvaluation(folder) };
    this.#kept.set(folder, entry);
    for (const oldest of [...this.#kept.keys()].slice(0, -maxKept)) this.#kept.delete(oldest);
    return entry.scores;
  }
}

/** Of each run the first and the last; the others as they are. */
function chosenOf(found: readonly FoundEvaluation[]): readonly FoundEvaluation[] {
  const isEnd = ({ which }: FoundEvaluation) => which === null || which === 'before' || which === 'after';
  const ends = found.filter(isEnd);
  return (ends.length > 1 ? ends : found).slice(0, maxChosen);
}

/** Of a run those that have ended. */
async function evaluationsOfRun({ id, folder }: FoundRun): Promise<FoundEvaluation[]> {
  const ended = await readRun(folder)
    .then((reader) => reader.evaluations())
    .catch(() => []);
  const found = await Promise.all(
    ended.map(async ({ name: which, step }) => {
      const own = join(folder, 'evaluations', stepName(step));
      const header = await readHeader(own);
      return header ? [{ ...header, id: `${id}:${which}`, run: id, which, folder: own }] : [];
    }),
  );
  return found.flat();
}

/** Null for a folder that holds no evaluation, or none that can be read. */
async function readHeader(folder: string): Promise<{ environment: string; policy: string } | null> {
  const header: unknown = await readFile(join(folder, 'evaluation.json'), 'utf8')
    .then(JSON.parse)
    .catch(() => null);
  if (!isObject(header)) return null;
  const { environment, policy } = header;
  return typeof environment === 'string' && typeof policy === 'string' ? { environment, policy } : null;
}
