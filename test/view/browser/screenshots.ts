/** Makes the pictures of the docs: `tsx test/view/browser/screenshots.ts <folder with one run of the desk, and evaluations of it beside>`. */
import { join } from 'node:path';
import { RunViews, startView } from '../../../src/view/index.ts';
import { root } from '../../support/programs.ts';
import { startBrowser } from './browser.ts';

const [folder = 'runs'] = process.argv.slice(2);
const { runs } = await new RunViews([folder]).list();
const id = runs[0]?.id;
if (id === undefined) throw new Error(`There is no run in ${folder}.`);
const views = new RunViews([folder]);
const early = await views.step(id, '3');
const parted = early.groups.find(({ hasSignal }) => hasSignal)?.group ?? 0;

const pictures = {
  run: { address: `/runs/${id}`, height: 760 },
  group: { address: `/runs/${id}/steps/3/groups/${parted}`, height: 960 },
  tokens: { address: `/runs/${id}/steps/3/groups/${parted}/rollouts/0?view=tokens`, height: 620 },
  flips: { address: `/flips/${id}/before/${id}/after`, height: 960 },
  compare: { address: '/compare', height: 760 },
};

const view = await startView({ folders: [folder], port: 0 });
const browser = await startBrowser();
for (const [name, { address, height }] of Object.entries(pictures)) {
  const page = await browser.newPage({
    viewport: { width: 1200, height },
    locale: 'en-US',
    colorScheme: 'light',
  });
  await page.goto(`${view.url}#${address}`);
  await page.locator('h1').first().waitFor();
  await page.waitForTimeout(800);
  await page.screenshot({ path: join(root, 'docs', 'images', `${name}.png`) });
}
await browser.close();
await view.close();
