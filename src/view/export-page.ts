import { createWriteStream } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { writeNewFolder } from '../util/durable-files.ts';
import { answerFile } from './answer-file.ts';
import { pageFiles } from './page-files.ts';
import { RunViews } from './run-views.ts';

interface ExportOptions {
  folders: readonly string[];
  /** A folder that is new or empty. */
  to: string;
  /** Most rollouts of a run whose conversations are written. Beyond that, steps are left out, evenly. */
  maxRollouts: number;
  /** Called as steps are written: the runs that are done, with a fraction for `run`, and the number of all. */
  onProgress?: ((done: number, total: number, run: string) => void) | undefined;
  signal?: AbortSignal | undefined;
}

interface Exported {
  runs: number;
  files: number;
  /** Steps and evaluations without their groups, by the id of their run. */
  leftOut: Record<string, string[]>;
}

interface Addressed {
  path: string;
  answer: object;
}

/**
 * Writes the page with all its answers as files, at most one for each step, which any web server can show. Of a run
 * with too many rollouts, all curves and lists of steps are written, but only the groups of every n-th step. The folder
 * is whole or absent.
 */
export async function exportPage({
  folders,
  to,
  maxRollouts,
  onProgress,
  signal,
}: ExportOptions): Promise<Exported> {
  const views = new RunViews(folders);
  const exported: Exported = { runs: 0, files: 0, leftOut: {} };
  await writeNewFolder(to, async (folder) => {
    /** Writes the answers of one file. */
    const pack = async (first: string, answers: Iterable<Addressed> | AsyncIterable<Addressed>) => {
      const path = join(folder, 'api', answerFile(first));
      await mkdir(dirname(path), { recursive: true });
      await pipeline(Readable.from(linesOf(answers)), createGzip(), createWriteStream(path), { signal });
      exported.files++;
    };
    for (const { name, body } of await pageFiles()) {
      await writeFile(join(folder, name), name === 'index.html' ? markedAsExport(body) : body);
      exported.files++;
    }
    const list = await views.list();
    await pack('runs', [{ path: 'runs', answer: { ...list, service: null } }]);
    await pack('evaluations', comparisonsOf(views));
    for (const { id } of list.runs) {
      const run = await views.run(id);
      await pack(`runs/${id}`, [{ path: `runs/${id}`, answer: run }]);
      const isKept = await keptSteps(views, { id, names: run.names, maxRollouts });
      for (const [at, which] of run.names.entries()) {
        onProgress?.(exported.runs + at / run.names.length, list.runs.length, id);
        const answers = views.answersOf(id, which, { groups: isKept(at) });
        await pack(`runs/${id}/steps/${which}`, answers);
      }
      const left = run.names.filter((_, at) => !isKept(at));
      if (left.length > 0) exported.leftOut[id] = left;
      const judged = run.evaluations.map(({ name }) => name).filter((name) => run.names.includes(name));
      if (judged.length > 1) await pack(`flips/${id}`, flipsOf(views, id, judged));
      exported.runs++;
    }
  });
  return exported;
}

async function* linesOf(answers: Iterable<Addressed> | AsyncIterable<Addressed>): AsyncGenerator<string> {
  for await (const { path, answer } of answers) yield `${path}\t${JSON.stringify(answer)}\n`;
}

/** Tells the page that its answers are files. */
const markedAsExport = (page: Uint8Array): string =>
  Buffer.from(page).toString('utf8').replace('<html ', '<html data-answers="files" ');

/** Of each environment the comparison that is shown first. */
async function* comparisonsOf({ evaluations }: RunViews): AsyncGenerator<Addressed> {
  const list = await evaluations.list();
  yield { path: 'evaluations', answer: list };
  for (const { chosen } of list.environments)
    yield { path: `comparisons/${chosen.join(',')}`, answer: await evaluations.compare(chosen) };
}

/** Each evaluation of a run beside each later one. */
async function* flipsOf(views: RunViews, id: string, names: readonly string[]): AsyncGenerator<Addressed> {
  for (const [at, a] of names.entries())
    for (const b of names.slice(at + 1)) {
      const answer = await views.flips({ id, which: a }, { id, which: b });
      yield { path: `flips/${id}/${a}/${id}/${b}`, answer };
    }
}

/** Whether the conversations of a step, by its place, are written. */
async function keptSteps(
  views: RunViews,
  { id, names, maxRollouts }: { id: string; names: readonly string[]; maxRollouts: number },
): Promise<(at: number) => boolean> {
  let total = 0;
  for (const which of names)
    for (const { rollouts } of (await views.step(id, which)).groups) total += rollouts.length;
  const apart = Math.max(1, Math.ceil(total / maxRollouts));
  return (at) => at % apart === 0 || at === names.length - 1;
}
