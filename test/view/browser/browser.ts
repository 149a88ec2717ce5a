import chromium from '@sparticuz/chromium';
import { type Browser, chromium as playwright } from 'playwright-core';

/** Starts the browser of the package `@sparticuz/chromium`, which it unpacks into the system's folder for temporary files. */
export async function startBrowser(): Promise<Browser> {
  // In a single process, the end of one context ends all.
  const args = chromium.args.filter((flag) => !['--single-process', '--no-zygote'].includes(flag));
  return playwright.launch({ args, executablePath: await chromium.executablePath() });
}
