import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createClient } from 'martingale';
import { type RunningService, startService } from 'martingale/service';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { Choice } from '../../../src/contract/index.ts';
import { exportPage, startView } from '../../../src/view/index.ts';
import type { RunningView } from '../../../src/view/start-view.ts';
import { sharedFolder, temporaryFolder } from '../../support/files.ts';
import { startServer } from '../../support/http-server.ts';
import { baseModel, ScriptedEngine } from '../../support/scripted-engine.ts';
import { makeRun } from '../make-run.ts';
import { startBrowser } from './browser.ts';
import { type OpenOptions, openPage } from './open-page.ts';

/** What a model may write to harm whoever reads it: markup, terminal commands, turned and piled-up letters. */
const hostile = [
  '<script>window.harmed = true</script><img src=x onerror="window.harmed = true"><style>*{display:none}</style>',
  '&lt;b&gt; </div></main> javascript:alert(1)',
  '\u001b[2J\u001b]0;title\u0007 \u202eright to left\u202c \u2066\u200b',
  `z${'\u0301'.repeat(300)}`,
  'x'.repeat(20_000),
].join('\n');

const folder = sharedFolder();
const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
let browser: Browser;
let view: RunningView;
let service: RunningService;

beforeAll(async () => {
  await makeRun({ runDirectory: join(folder, 'desk'), steps: 3, groupsPerStep: 4, rolloutsPerGroup: 4 });
  await withTokens(join(folder, 'desk'));
  await makeRun({
    runDirectory: join(folder, 'faster'),
    steps: 3,
    groupsPerStep: 4,
    learningRate: 3e-4,
    pace: 0.2,
  });
  await makeRun({
    runDirectory: join(folder, 'hostile'),
    steps: 1,
    groupsPerStep: 1,
    rolloutsPerGroup: 2,
    reply: hostile,
  });
  service = await startService({ engine: new ScriptedEngine(), dataFolder: join(folder, 'data') });
  const { url: baseUrl, apiKey } = service;
  const client = createClient({ baseUrl, apiKey });
  await client.models.create({ entity: 'a', project: 'shop', name: 'desk', base_model: baseModel.id });
  await client.close();
  view = await startView({ folders: [folder], port: 0, service: { baseUrl, apiKey } });
  browser = await startBrowser();
});

afterAll(async () => {
  await browser?.close();
  await view?.close();
  await service?.close();
});

/** Writes what a job found of the tokens of step 1, as the harness does: each a little likelier, the second clipped. */
async function withTokens(run: string): Promise<void> {
  const lines = (await readFile(join(run, 'trajectories', 'step-0001.jsonl'), 'utf8')).trim().split('\n');
  const groups = lines.map((line) => {
    const { group, trajectories } = JSON.parse(line);
    const choicesOf = ({ messages_and_choices: entries }: { messages_and_choices: Partial<Choice>[] }) =>
      entries.flatMap(({ logprobs }) => (logprobs?.content ? [logprobs.content] : []));
    return {
      group,
      trajectories: trajectories.map((trajectory: Parameters<typeof choicesOf>[0], at: number) => ({
        trajectory: at,
        choices: choicesOf(trajectory).map((content, choice) => ({
          choice,
          logprobs: content.map(({ logprob }) => logprob + 0.2),
          clipped: [1],
        })),
      })),
    };
  });
  await mkdir(join(run, 'tokens'), { recursive: true });
  await writeFile(
    join(run, 'tokens', 'step-0001.jsonl'),
    groups.map((group) => `${JSON.stringify(group)}\n`).join(''),
  );
}

/** Opens an address of the page; problems of its scripts fail the test. */
const open = (address: string, { url = view.url, ...options }: OpenOptions & { url?: string } = {}) =>
  openPage(browser, `${url}#${address}`, options);

/** Copies a run; in step 1, the first rollout of each group asked a helper too. */
async function withHelper(from: string, to: string): Promise<void> {
  await cp(join(folder, from), join(folder, to), { recursive: true });
  const path = join(folder, to, 'trajectories', 'step-0001.jsonl');
  const lines = (await readFile(path, 'utf8')).trim().split('\n');
  const changed = lines.map((line) => {
    const group = JSON.parse(line);
    const [trajectory] = group.trajectories;
    trajectory.additional_histories = [
      { messages_and_choices: trajectory.messages_and_choices, tools: trajectory.tools },
    ];
    trajectory.record.calls.push({ ...trajectory.record.calls[0], index: 1, history: 1 });
    return `${JSON.stringify(group)}\n`;
  });
  await writeFile(path, changed.join(''));
}

const addresses = {
  runs: '/',
  overlay: '/?runs=desk,faster',
  run: '/runs/desk?curves=all',
  step: '/runs/desk/steps/1',
  evaluation: '/runs/desk/steps/after',
  timeline: '/runs/desk/steps/1/timeline',
  group: '/runs/desk/steps/1/groups/0',
  rollout: '/runs/desk/steps/1/groups/0/rollouts/1',
  tokens: '/runs/desk/steps/1/groups/0/rollouts/1?view=tokens',
  ratio: '/runs/desk/steps/1/groups/0/rollouts/1?view=tokens&shade=ratio',
  hostile: '/runs/hostile/steps/0/groups/0/rollouts/0',
  flips: '/flips/desk/before/desk/after',
  compare: '/compare',
  service: '/service',
};

const panels = Object.entries(addresses);

describe('every panel', { tags: ['long'] }, () => {
  it.for(panels)('is accessible, %s, in light and dark', async ([, address]) => {
    for (const dark of [false, true]) {
      const { page, problems } = await open(address, { dark });
      // The content policy forbids scripts in the page, so axe runs as the browser's own.
      await page.evaluate(await readFile(axe, 'utf8'));
      const violations = await page.evaluate<{ id: string; nodes: { html: string }[] }[]>(
        'axe.run().then(({ violations }) => violations)',
      );
      const found = violations.map(
        ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(' | ')}`,
      );
      expect(found).toEqual([]);
      expect(problems).toEqual([]);
    }
  });

  it.for(panels)('fits a phone, %s', async ([, address]) => {
    const { page } = await open(address, { width: 360 });
    expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360);
  });
});

describe('the way through a run', () => {
  it('goes by keys from the list of runs to a token and back', async () => {
    const { page } = await open('/');
    const heading = page.locator('h1').first();
    const goes = async (key: string, title: string) => {
      await page.keyboard.press(key);
      await expect.poll(() => heading.textContent()).toContain(title);
    };
    await page.getByRole('searchbox').fill('faster');
    await page.keyboard.press('Escape');
    await goes('Enter', 'faster');
    await goes('Enter', 'Step 2');
    await goes('ArrowLeft', 'Step 1');
    await goes('j', 'Step 1');
    await goes('Enter', 'Group 0');
    await goes('j', 'Group 0');
    await goes('Enter', 'Rollout 0');
    await page.keyboard.press('v');
    const tokens = page.getByRole('listbox');
    await tokens.focus();
    await page.keyboard.press('ArrowRight');
    await expect.poll(() => page.url()).toContain('token=0.1');
    await expect.poll(() => page.locator('.token-numbers').textContent()).toContain('Log-probability');
    await page.locator('h1').click();
    await goes('Escape', 'Group 0');
    await goes('Escape', 'Step 1');
    await page.goBack();
    await expect.poll(() => heading.textContent()).toContain('Group 0');
  });

  it('a bar of the histogram leaves the groups with such a reward, and the address keeps it', async () => {
    const { page } = await open('/runs/desk/steps/1');
    const bars = page.locator('.bin:enabled');
    await bars.last().click();
    const shown = await page.locator('.group-line').count();
    expect(shown).toBeGreaterThan(0);
    expect(page.url()).toMatch(/bin=\d/);
    await page.reload();
    await expect.poll(() => page.locator('.group-line').count()).toBe(shown);
    await expect.poll(() => page.locator('.bin[aria-pressed=true]').count()).toBe(1);
  });

  it('two runs lie over each other, with what differs in their options', async () => {
    const { page } = await open('/');
    for (const name of ['desk', 'faster'])
      await page.getByRole('checkbox', { name: `Compare ${name}` }).check();
    const differences = page.locator('.differences');
    await expect.poll(() => differences.textContent()).toContain('config.learning_rate');
    await expect.poll(() => differences.textContent()).toContain('0.0003');
  });

  it('evaluations stand in one table; each can be the one that the others are compared with', async () => {
    const { page } = await open('/');
    await page.getByRole('link', { name: 'Compare evaluations' }).click();
    const rows = page.locator('.comparison tbody tr');
    await expect.poll(() => rows.count()).toBe(4);
    expect(await rows.first().textContent()).toContain('baseline');
    await page.getByRole('button', { name: 'Compare with this one' }).first().click();
    const names = rows.locator('th > :first-child');
    const second = await names.nth(1).textContent();
    await expect.poll(() => names.first().textContent()).not.toBe(second);
    for (const name of [/^desk, before/, /^faster, before/])
      await page.getByRole('checkbox', { name }).uncheck();
    await expect.poll(() => rows.count()).toBe(2);
    expect(await page.locator('.scenario-scores thead th').count()).toBe(3);
    await page.getByRole('checkbox', { name: /^desk, after/ }).uncheck();
    await expect.poll(() => page.locator('.state').textContent()).toBe('Choose two evaluations or more');
  });

  it('rollouts of a group stand side by side from the place where they part', async () => {
    const { page } = await open('/runs/desk/steps/1/groups/0');
    await expect
      .poll(() => page.locator('.parting-note').textContent())
      .toMatch(/They part at turn 2: the text, after \d+ characters/);
    expect(await page.locator('.column').count()).toBe(4);
    expect(await page.locator('mark.parting').count()).toBe(4);
  });

  it('a turn leads to its tokens; of several conversations one has the cursor', async () => {
    await withHelper('desk', 'helper');
    const { page } = await open('/runs/helper/steps/1/groups/0/rollouts/0');
    expect(await page.locator('.turns').count()).toBe(2);
    await page.locator('.turn-side a').last().click();
    await expect.poll(() => page.url()).toContain('token=1.0');
    const chosen = page.locator('.token[aria-selected=true]');
    await expect.poll(() => chosen.getAttribute('id')).toBe('tokens-1-0');
    expect(await chosen.count()).toBe(1);
    expect(await page.locator('.token-numbers').count()).toBe(1);
    expect(await page.locator('.token-heading').last().textContent()).toMatch(/Call 1, \d+ prompt tokens/);
    const ids = await page.evaluate<string[]>('[...document.querySelectorAll("[id]")].map(({ id }) => id)');
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('tokens show how much likelier training found them, and which losses were clipped', async () => {
    const { page } = await open(`${addresses.tokens}&token=0.1`);
    await page.getByRole('button', { name: 'Ratio' }).click();
    const numbers = page.locator('.token-numbers');
    await expect.poll(() => numbers.textContent()).toContain('Ratio1.221, clipped');
    expect(await page.locator('.token.plus-2').count()).toBeGreaterThan(1);
    expect(await page.locator('.token-strip .token.clipped').count()).toBe(1);
    const other = await open(addresses.tokens.replace('steps/1', 'steps/0'));
    expect(await other.page.getByRole('button', { name: 'Ratio' }).count()).toBe(0);
  });

  it('a timeline shows its longest rollouts first and leads to them', async () => {
    const { page } = await open('/runs/desk/steps/1/timeline');
    await page.getByRole('button', { name: 'Longest first' }).click();
    const first = page.locator('.row .lane').first();
    const lengthOf = async (at: number) =>
      Number(
        /: ([\d.]+) s/.exec((await page.locator('.row .lane').nth(at).getAttribute('title')) ?? '')?.[1],
      );
    expect(await lengthOf(0)).toBeGreaterThanOrEqual(await lengthOf(15));
    const href = await first.getAttribute('href');
    await page.keyboard.press('j');
    await expect.poll(() => page.locator('.row[aria-current]').count()).toBe(1);
    await page.keyboard.press('Enter');
    await expect.poll(() => page.url()).toContain(href ?? 'a link');
  });

  it('a chat asks two checkpoints the same question', async () => {
    const { page } = await open('/service');
    await expect.poll(() => page.getByRole('combobox').first().inputValue()).toBe('a/shop/desk:step0');
    await page.getByRole('textbox', { name: 'Question to both' }).fill('who are you?');
    await page.keyboard.press('Enter');
    const answers = page.locator('.chat-answers > div');
    for (const [at, model] of ['a/shop/desk:step0', baseModel.id].entries()) {
      await expect.poll(() => answers.nth(at).textContent()).toContain('hello');
      await expect.poll(() => answers.nth(at).textContent()).toContain(model);
    }
  });
});

it('shows itself where the system gives a language that the browser does not know', async () => {
  const { page, problems } = await open('/runs/desk', { locale: 'en-US@posix' });
  await page.locator('.chart canvas').first().waitFor();
  expect(problems).toEqual([]);
});

it('what a model wrote is text: no markup works, nothing is hidden or turned around', async () => {
  const { page, problems } = await open(addresses.hostile);
  const turn = page.locator('.turn').last();
  await expect.poll(() => turn.textContent()).toContain('<script>window.harmed');
  expect(await page.evaluate('window.harmed')).toBeUndefined();
  expect(await turn.locator('script, img, style, b').count()).toBe(0);
  expect(await turn.textContent()).toContain('ESC');
  expect(await turn.locator('.stand-in').count()).toBeGreaterThan(4);
  expect(await turn.getByRole('button', { name: /characters left/ }).count()).toBe(1);
  expect(problems).toEqual([]);
});

it('a run that goes on appears and grows without a reload', { timeout: 120_000 }, async () => {
  const { page } = await open('/');
  const stop = new AbortController();
  const running = makeRun({
    runDirectory: join(folder, 'live'),
    steps: 400,
    groupsPerStep: 2,
    rolloutsPerGroup: 2,
    signal: stop.signal,
  });
  const row = page.locator('tr', { hasText: 'live' });
  await expect.poll(() => row.textContent()).toContain('Running');
  const stepOf = async () => Number(await row.locator('progress').getAttribute('value'));
  const first = await stepOf();
  await expect.poll(stepOf).toBeGreaterThan(first);
  stop.abort();
  await running;
  await expect.poll(() => row.textContent()).toContain('Stopped');
});

it.each([
  ['sends files as they are', {}],
  ['unpacks them itself', { 'content-encoding': 'gzip' }],
])('an export shows the same from a web server that %s', async (_, packed) => {
  const to = join(await temporaryFolder(), 'out');
  await exportPage({ folders: [join(folder, 'desk')], to, maxRollouts: 1000 });
  const types: Record<string, string> = {
    html: 'text/html',
    js: 'text/javascript',
    css: 'text/css',
    svg: 'image/svg+xml',
  };
  const { url, close } = await startServer(async ({ url: path = '/' }, response) => {
    const name = path === '/' ? 'index.html' : path.replace(/\?.*/, '').slice(1);
    const body = await readFile(join(to, name)).catch(() => null);
    const type = types[name.split('.').at(-1) ?? ''] ?? 'application/gzip';
    response.writeHead(body ? 200 : 404, { 'content-type': type, ...(name.endsWith('.gz') ? packed : {}) });
    response.end(body ?? '');
  });
  onTestFinished(close);
  const { page } = await open('/runs/desk/steps/1/groups/0', { url: `${url}/` });
  await expect.poll(() => page.locator('.parts-table').textContent()).toContain('Advantage');
  expect(await page.locator('.live').count()).toBe(0);
  await page.goto(`${url}/#/compare`);
  await expect.poll(() => page.locator('.comparison tbody tr').count()).toBe(2);
  expect(await page.locator('.compare-choice').count()).toBe(0);
});
