import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import chromium from '@sparticuz/chromium';
import { type Browser, chromium as playwright } from 'playwright-core';

const cache = fileURLToPath(new URL('../../../node_modules/.cache/chromium/', import.meta.url));

/** Starts the browser of the package `@sparticuz/chromium`. */
export async function startBrowser(): Promise<Browser> {
  // In a single process, the end of one context ends all.
  const args = chromium.args.filter((flag) => !['--single-process', '--no-zygote'].includes(flag));
  return playwright.launch({ args, executablePath: await unpacked() });
}

/**
 * Path of the browser, which is unpacked once: that takes seconds of processor time. The package itself unpacks into the
 * folder for temporary files, and takes what another process has not finished there for the whole.
 */
async function unpacked(): Promise<string> {
  const manifest = new URL('../package.json', import.meta.resolve('@sparticuz/chromium'));
  const { version }: { version: string } = JSON.parse(await readFile(manifest, 'utf8'));
  const folder = join(cache, version);
  if (!existsSync(folder)) {
    const own = `${folder}.${process.pid}`;
    await mkdir(own, { recursive: true });
    const { TMPDIR } = process.env;
    process.env.TMPDIR = own;
    try {
      await chromium.executablePath();
    } finally {
      if (TMPDIR === undefined) delete process.env.TMPDIR;
      else process.env.TMPDIR = TMPDIR;
    }
    // Another file of tests may have been faster.
    await rename(own, folder).catch(() => rm(own, { recursive: true }));
  }
  return join(folder, 'chromium');
}
