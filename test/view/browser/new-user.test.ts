import { appendFile, cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startView } from '../../../src/view/index.ts';
import type { RunningView } from '../../../src/view/start-view.ts';
import { sharedFolder } from '../../support/files.ts';
import { makeRun } from '../make-run.ts';
import { startBrowser } from './browser.ts';
import { type OpenOptions, openPage } from './open-page.ts';

const folder = sharedFolder();
/** The folder that `train` makes itself. */
const timed = '2026-11-25T22-46-10.782Z-ticket-desk';
let browser: Browser;
let view: RunningView;

beforeAll(async () => {
  await makeRun({ runDirectory: join(folder, timed), steps: 4, groupsPerStep: 3, rolloutsPerGroup: 4 });
  await cp(join(folder, timed), join(folder, 'solved'), { recursive: true });
  await toSolved(join(folder, 'solved'));
  view = await startView({ folders: [folder], port: 0 });
  browser = await startBrowser();
});

afterAll(async () => {
  await browser?.close();
  await view?.close();
});

const open = (address: string, options?: OpenOptions) => openPage(browser, `${view.url}#${address}`, options);

/** Makes every rollout of step 1 solve its scenario, with the alarms that a run has then. */
async function toSolved(run: string): Promise<void> {
  const alarm = (kind: string, step: number, more = {}) =>
    `${JSON.stringify({ time: new Date(0).toISOString(), type: 'alarm', kind, step, message: `${kind} was found`, lookAt: 'Look.', ...more })}\n`;
  await appendFile(
    join(run, 'events.jsonl'),
    [1, 2, 3].map((step) => alarm('repeated_text', step)).join('') +
      alarm('no_signal', 3, { cause: 'solved', message: 'The scenarios are solved.' }),
  );
  const path = join(run, 'trajectories', 'step-0001.jsonl');
  const groups = (await readFile(path, 'utf8'))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  for (const { trajectories, rollouts } of groups) {
    const kept = rollouts.filter(({ status }: { status: string }) => status === 'completed');
    rollouts.splice(0, rollouts.length, ...kept);
    for (const rollout of rollouts) rollout.reward = 1;
    for (const trajectory of trajectories) {
      trajectory.reward = 1;
      trajectory.metrics.success = 1;
    }
  }
  await writeFile(path, groups.map((group) => `${JSON.stringify(group)}\n`).join(''));
}

describe('the swatch of a legend has the colour of what it names', () => {
  const looks = ({ selector }: { selector: string }) =>
    `[...document.querySelectorAll('${selector}')].map((one) => getComputedStyle(one).backgroundColor)`;

  // A trainer is in the legend of a timeline if a job ran meanwhile, which a quick step does not always see.
  it.for([
    ['a timeline', 'timeline', '.lanes-legend .swatch', 5],
    ['a timeline by policy version', 'timeline?colour=version', '.lanes-legend .swatch', 1],
    ['the time of a rollout', 'groups/0/rollouts/0', '[aria-label="Time"] .swatch', 2],
    ['tokens', 'groups/0/rollouts/0?view=tokens', '.legend .swatch', 6],
  ] as const)('%s', async ([, at, selector, least]) => {
    for (const dark of [false, true]) {
      const { page } = await open(`/runs/${timed}/steps/1/${at}`, { dark });
      await page.locator(selector).first().waitFor();
      const colours = await page.evaluate<string[]>(looks({ selector }));
      expect(colours.length).toBeGreaterThanOrEqual(least);
      expect(new Set(colours).size).toBe(colours.length);
      const sizes = await page.evaluate<number[]>(
        `[...document.querySelectorAll('${selector}')].map((one) => one.offsetWidth * one.offsetHeight)`,
      );
      expect(Math.min(...sizes)).toBeGreaterThan(100);
    }
  });

  it('the bars of a lane are those of its legend', async () => {
    const { page } = await open(`/runs/${timed}/steps/1/timeline`);
    const colourOf = (selector: string) =>
      page.evaluate<string>(`getComputedStyle(document.querySelector('${selector}')).backgroundColor`);
    await page.locator('.row .stretch.sampling').first().waitFor();
    expect(await colourOf('.lanes-legend .swatch.sampling')).toBe(await colourOf('.row .stretch.sampling'));
  });
});

describe('the panel of a run', () => {
  it('is headed by what was trained where the folder has its name from the time', async () => {
    const { page } = await open(`/runs/${timed}`);
    const heading = page.locator('.heading');
    await expect.poll(() => heading.locator('h1').textContent()).toMatch(/^ticket desk, .*shop\/desk$/);
    expect(await heading.textContent()).toContain(timed);
    await expect.poll(() => page.title()).toMatch(/^ticket desk, .*shop\/desk · martingale$/);
    await page.goto(`${view.url}#/runs/${timed}/steps/1`);
    await expect.poll(() => page.title()).toMatch(/^Step 1 · ticket desk, .*shop\/desk · martingale$/);
    await page.goto(`${view.url}#/`);
    const titles = page.locator('.runs .name a');
    await expect
      .poll(() => titles.allTextContents())
      .toEqual(expect.arrayContaining(['solved', expect.stringMatching(/^ticket desk, /)]));
  });

  it('tells chosen options from those at their default', async () => {
    const { page } = await open(`/runs/${timed}`);
    await page.locator('summary', { hasText: 'Configuration' }).click();
    const namesIn = (part: string) => page.locator(`section[aria-label="${part}"] dt`).allTextContents();
    expect(await namesIn('Chosen')).toEqual(
      expect.arrayContaining([
        'steps',
        'groupsPerStep',
        'rolloutsPerGroup',
        'scenarios',
        'modelAsked',
        'config',
        'prices',
      ]),
    );
    expect(await namesIn('At the default')).toEqual(expect.arrayContaining(['maxStaleness', 'seed']));
    expect(await namesIn('At the default')).not.toContain('steps');
    expect(await namesIn('Found at the start')).toEqual(expect.arrayContaining(['versions', 'started']));
  });

  it('curves that never moved are one line, which opens', async () => {
    const { page } = await open(`/runs/${timed}`);
    const line = page.locator('.unchanged > summary');
    await expect.poll(() => line.textContent()).toContain('Staleness 0');
    const titles = page.locator('.chart-title');
    expect(await titles.allTextContents()).not.toContain('Staleness');
    expect(await titles.allTextContents()).toContain('Reward');
    await line.click();
    await expect.poll(() => titles.allTextContents()).toContain('Staleness');
  });

  it('alarms of a kind are one entry with their steps; solved scenarios are good news', async () => {
    const { page } = await open('/runs/solved');
    const alarms = page.locator('.alarms');
    await expect.poll(() => alarms.locator('h2').textContent()).toBe('3 alarms');
    const entries = alarms.locator('li');
    expect(await entries.count()).toBe(2);
    expect(await entries.first().locator('.alarm-steps').textContent()).toBe('Steps 1, 2, 3');
    expect(await entries.last().locator('.tag.good').textContent()).toContain('solved');
    expect(await entries.last().locator('.warn').count()).toBe(0);
  });

  it('groups whose every rollout solved the scenario say so, and nothing is red', async () => {
    const { page } = await open('/runs/solved/steps/1');
    await expect
      .poll(() => page.locator('.group-state').allTextContents())
      .toEqual(Array(3).fill('all solved it'));
    await page.goto(`${view.url}#/runs/solved/steps/1/groups/0`);
    await expect
      .poll(() => page.locator('.heading .tag.good').textContent())
      .toContain('Every rollout solved it');
  });
});

it('lists call a scenario by its first text; its JSON is one click away', async () => {
  const { page } = await open(`/runs/${timed}/steps/1`);
  await expect
    .poll(() => page.locator('.group-scenario').first().textContent())
    .toMatch(/^Where is order \d+\?$/);
  await page.locator('.group-line').first().click();
  await page.locator('summary', { hasText: 'Scenario' }).click();
  await expect.poll(() => page.locator('.scenario').textContent()).toContain('"question": "Where is order');
  await page.goto(`${view.url}#/flips/${timed}/before/${timed}/after`);
  await expect.poll(() => page.locator('.flip-scenario').first().textContent()).toMatch(/^Where is order/);
});

describe('on a phone', () => {
  it('the numbers of a token leave the tokens in sight', async () => {
    const { page } = await open(`/runs/${timed}/steps/1/groups/0/rollouts/0?view=tokens`, { width: 390 });
    const bar = page.locator('.token-numbers');
    await bar.waitFor();
    expect((await bar.boundingBox())?.height).toBeLessThan(80);
  });

  it('the crumbs name the panel and the one above it in full', async () => {
    const { page } = await open(`/runs/${timed}/steps/1/groups/0/rollouts/0`, { width: 390 });
    const shown = page.locator('.crumbs li:visible');
    await expect.poll(() => shown.allTextContents()).toEqual(['Group 0', 'Rollout 0']);
    expect(
      await page.evaluate<boolean>(
        `[...document.querySelectorAll('.crumbs li')].every((one) => one.scrollWidth <= one.clientWidth)`,
      ),
    ).toBe(true);
  });
});
