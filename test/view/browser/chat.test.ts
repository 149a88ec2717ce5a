import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { startView } from '../../../src/view/index.ts';
import { type FakeService, startFakeService } from '../../model/fake-service.ts';
import { sharedFolder, temporaryFolder } from '../../support/files.ts';
import { clerkPolicy, makeClerkRun } from '../make-clerk.ts';
import { startBrowser } from './browser.ts';
import { openPage } from './open-page.ts';

const folder = sharedFolder();
let browser: Browser;
let service: FakeService;

beforeAll(async () => {
  service = await startFakeService({ policy: clerkPolicy });
  await makeClerkRun(service, join(folder, 'clerk'));
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await service?.[Symbol.asyncDispose]();
});

async function openChat(runs: string) {
  const view = await startView({
    folders: [runs],
    port: 0,
    service: { baseUrl: service.baseUrl, apiKey: 'key' },
  });
  onTestFinished(() => view.close());
  return openPage(browser, `${view.url}#/service`);
}

it('a trained model is asked as in its run: its calls show, and what the tools return is typed in', async () => {
  const { page, problems } = await openChat(folder);
  await expect
    .poll(() => page.locator('.chat-note').textContent())
    .toContain('sends its instructions, 1 tool (lookUp), its response format, as the run clerk did');
  const field = page.getByRole('textbox', { name: 'Question to both' });
  expect(await field.getAttribute('placeholder')).toMatch(/Where is order \d+\?/);
  await field.fill('Where is order 4204?');
  await page.keyboard.press('Enter');
  const chat = page.locator('.chat');
  await expect.poll(() => chat.textContent()).toContain('{"order":"4204"}');
  await page.getByRole('textbox', { name: 'lookUp returns' }).fill('order 4204 left on Monday');
  await page.keyboard.press('Enter');
  await expect.poll(() => chat.textContent()).toContain('{"answer":"order 4204 left on Monday"}');
  await field.fill('And order 1885?');
  await page.keyboard.press('Enter');
  await expect.poll(() => chat.textContent()).toContain('{"order":"1885"}');
  expect(service.requests.at(-1)?.messages.map(({ role }) => role)).toEqual([
    'system',
    'user',
    'assistant',
    'tool',
    'assistant',
    'user',
  ]);
  expect(problems).toEqual([]);
});

it('says before the first message that no run shows how the model was trained', async () => {
  const { page } = await openChat(await temporaryFolder());
  await expect
    .poll(() => page.locator('.chat-note').textContent())
    .toContain('No run here trained these models');
});
