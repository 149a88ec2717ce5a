import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { optimize } from 'martingale';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startView } from '../../../src/view/index.ts';
import type { RunningView } from '../../../src/view/start-view.ts';
import { addCode, codes, knowingModel, scenarios, validation } from '../../optimization/codes.ts';
import { sharedFolder } from '../../support/files.ts';
import { startBrowser } from './browser.ts';
import { openPage } from './open-page.ts';

const folder = sharedFolder();
const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
let browser: Browser;
let view: RunningView;

beforeAll(async () => {
  await optimize({
    environment: codes,
    scenarios,
    validation,
    model: knowingModel().model,
    texts: ['system'],
    reflect: async (request) => `${await addCode(request)} <img src=x onerror="window.harmed = true">`,
    iterations: 5,
    runDirectory: join(folder, 'codes'),
    progress: false,
  });
  view = await startView({ folders: [folder], port: 0 });
  browser = await startBrowser();
});

afterAll(async () => {
  await browser?.close();
  await view?.close();
});

it.each([
  { width: 1400, dark: false },
  { width: 480, dark: true },
])('shows candidates, who wins what, and texts side by side (%o)', async (options) => {
  const { page, problems } = await openPage(browser, `${view.url}#/runs/codes`, options);
  const tree = page.getByRole('region', { name: 'Candidates' });
  await tree.getByText('Best').waitFor();
  await tree.getByRole('button', { name: '1', exact: true }).click();
  const texts = page.getByRole('region', { name: 'Texts', exact: true });
  await texts.getByRole('heading', { name: 'Texts of candidate 1' }).waitFor();
  expect(await texts.locator('ins').allInnerTexts()).toEqual([
    expect.stringMatching(/^ \w+=\d <img src=x onerror="window.harmed = true">$/),
  ]);
  expect(await texts.locator('del').count()).toBe(0);
  expect(
    await page.getByRole('region', { name: 'Scenarios' }).locator('td[data-wins]').count(),
  ).toBeGreaterThan(3);
  await page.getByRole('region', { name: 'Scenarios' }).getByRole('link').first().click();
  await page.getByText('unknown').first().waitFor();
  await page.goBack();
  await texts.waitFor();
  // The content policy forbids scripts in the page, so axe runs as the browser's own.
  await page.evaluate(await readFile(axe, 'utf8'));
  const found = await page.evaluate('axe.run().then(({ violations }) => violations.map(({ id }) => id))');
  expect(found).toEqual([]);
  expect(await page.evaluate('window.harmed')).toBeUndefined();
  expect(problems).toEqual([]);
});
