import type { Browser, Page } from 'playwright-core';
import { onTestFinished } from 'vitest';

export interface OpenOptions {
  width?: number;
  dark?: boolean;
  locale?: string;
}

/** Opens an address of the page until the test has finished; problems of its scripts are gathered. */
export async function openPage(
  browser: Browser,
  url: string,
  { width = 1400, dark = false, locale = 'en-US' }: OpenOptions = {},
): Promise<{ page: Page; problems: string[] }> {
  const context = await browser.newContext({
    viewport: { width, height: 900 },
    locale,
    colorScheme: dark ? 'dark' : 'light',
  });
  onTestFinished(() => context.close());
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(error.message));
  page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
  await page.goto(url);
  await page.locator('h1').first().waitFor();
  return { page, problems };
}
