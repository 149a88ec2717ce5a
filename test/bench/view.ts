import { link, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RunViews, startView } from '../../src/view/index.ts';
import { startBrowser } from '../view/browser/browser.ts';
import { makeRun } from '../view/make-run.ts';
import { head, machine, row } from './table.ts';

/*
 * How long the page needs for a large run, and the memory of its server: `npm run bench:view [steps] [rollouts]`. A small
 * run is made by the harness and multiplied: its groups within a step, and its steps by links to one file.
 */

const [steps = 1000, rollouts = 512] = process.argv.slice(2).map(Number);
const inGroup = 8;

/** Multiplies the first step of a run. Gives the size of a step's file in bytes. */
async function enlarge(folder: string): Promise<number> {
  const trajectories = join(folder, 'trajectories');
  const lines = (await readFile(join(trajectories, 'step-0000.jsonl'), 'utf8')).trimEnd().split('\n');
  const groups = Array.from({ length: rollouts / inGroup }, (_, group) =>
    JSON.stringify({ ...JSON.parse(lines[group % lines.length] ?? ''), group }),
  );
  const first = join(trajectories, 'large.jsonl');
  await writeFile(first, `${groups.join('\n')}\n`);
  for (const name of ['metrics', 'events'] as const) {
    const file = join(folder, `${name}.jsonl`);
    const all = (await readFile(file, 'utf8'))
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    const ofStep = all.filter((line) => line.step === 0);
    const rest = all.filter((line) => line.step === undefined);
    const many = Array.from({ length: steps }, (_, step) =>
      ofStep.map((line) => ({ ...line, step, steps })),
    ).flat();
    await writeFile(
      file,
      [...rest.slice(0, 1), ...many, ...rest.slice(1)].map((line) => `${JSON.stringify(line)}\n`).join(''),
    );
  }
  for (let step = 0; step < steps; step++) {
    const path = join(trajectories, `step-${String(step).padStart(4, '0')}.jsonl`);
    await rm(path, { force: true });
    await link(first, path);
  }
  return (await stat(first)).size;
}

async function timed<Result>(work: () => Promise<Result>): Promise<[number, Result]> {
  const started = performance.now();
  const result = await work();
  return [performance.now() - started, result];
}

const root = await mkdtemp(join(tmpdir(), 'martingale-bench-'));
const folder = join(root, 'large');
await mkdir(folder);
await makeRun({ runDirectory: folder, steps: 1, groupsPerStep: 8, rolloutsPerGroup: inGroup });
const bytes = await enlarge(folder);
console.log(`${machine}\n\n${steps} steps of ${rollouts} rollouts, ${(bytes / 1e6).toFixed(1)} MB a step\n`);
head('what', 'first, ms', 'again, ms', 'answer, KB');
const before = process.memoryUsage().rss;
const views = new RunViews([root]);
const works: [string, () => Promise<object>][] = [
  ['the list of runs', () => views.list()],
  ['the run', () => views.run('large')],
  ['a step', () => views.step('large', String(steps >> 1))],
  ['its timeline', () => views.timeline('large', String(steps >> 1))],
  ['a group', () => views.group('large', String(steps >> 1), 3)],
  ['a rollout with its tokens', () => views.rollout('large', String(steps >> 1), 3, 2)],
];
for (const [name, work] of works) {
  const [first, answer] = await timed(work);
  const [again] = await timed(work);
  row(name, first.toFixed(0), again.toFixed(0), (JSON.stringify(answer).length / 1024).toFixed(0));
}
for (let step = 0; step < Math.min(steps, 100); step++) await views.step('large', String(step));
console.log(
  `\nmemory after 100 steps: ${((process.memoryUsage().rss - before) / 1e6).toFixed(0)} MB more than before\n`,
);

const view = await startView({ folders: [root], port: 0 });
const browser = await startBrowser();
head('in the browser', 'shown after, ms');
const page = await browser.newPage({ viewport: { width: 1400, height: 900 }, locale: 'en-US' });
const shows = async (name: string, address: string, what: string) => {
  const [ms] = await timed(async () => {
    await page.goto(address);
    await page.locator(what).first().waitFor();
  });
  row(name, ms.toFixed(0));
};
const address = view.url.replace(/\?.*/, '');
await shows('the list of runs, first paint', view.url, '.runs tbody tr');
await shows('the run with its curves', `${address}#/runs/large`, '.chart canvas');
await shows('a step', `${address}#/runs/large/steps/7`, '.group-line');
await shows('its timeline', `${address}#/runs/large/steps/7/timeline`, 'a.lane');
await shows('a group', `${address}#/runs/large/steps/7/groups/3`, '.column');

/** Scrolls down what is shown for two seconds, and tells how long its frames took. */
const scrolls = async (name: string, at: string, what: string) => {
  await page.goto(at);
  await page.locator(what).first().waitFor();
  await page.mouse.move(700, 600);
  const frames = page.evaluate<number[]>(`new Promise((resolve) => {
    const times = [];
    let last = performance.now();
    const end = last + 2000;
    const next = (now) => {
      times.push(now - last);
      last = now;
      if (now < end) requestAnimationFrame(next);
      else resolve(times.slice(1));
    };
    requestAnimationFrame(next);
  })`);
  for (let turn = 0; turn < 40; turn++) {
    await page.mouse.wheel(0, 400);
    await page.waitForTimeout(30);
  }
  const times = (await frames).sort((a, b) => a - b);
  const share = (part: number) => (times[Math.floor(part * (times.length - 1))] ?? 0).toFixed(0);
  row(name, share(0.5), share(0.95), share(1));
};
console.log('');
head('scrolling, ms a frame', 'median', '95 %', 'longest');
await scrolls('a step', `${address}#/runs/large/steps/7`, '.group-line');
await scrolls('its timeline', `${address}#/runs/large/steps/7/timeline`, 'a.lane');
await scrolls('tokens', `${address}#/runs/large/steps/7/groups/3/rollouts/2?view=tokens`, '.token');
await browser.close();
await view.close();
await rm(root, { recursive: true });
