import { readdir, readFile } from 'node:fs/promises';
import { basename, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A file of the page; the server and an export write it under its name. */
export interface PageFile {
  /** A plain file name: `index.html`. */
  name: string;
  /** The value of `Content-Type`. */
  type: string;
  body: Uint8Array;
}

const types: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

const source = fileURLToPath(new URL('./page/', import.meta.url));

/**
 * Bundles the page from its sources: Preact, signals, uPlot and the panels in one script and one style sheet. Nothing is
 * written. Needs esbuild, which only the repository has; the package holds the result, in `dist/view/page`.
 */
export async function bundlePage(): Promise<PageFile[]> {
  const { build } = await import('esbuild');
  const { outputFiles } = await build({
    entryPoints: { page: join(source, 'main.tsx') },
    outdir: source,
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    platform: 'browser',
    target: ['es2022', 'safari16'],
    jsx: 'automatic',
    jsxImportSource: 'preact',
    legalComments: 'none',
    logLevel: 'silent',
  });
  const plain = ['index.html', 'icon.svg'].map(async (name) =>
    toFile(name, await readFile(join(source, name))),
  );
  return [
    ...(await Promise.all(plain)),
    ...outputFiles.map(({ path, contents }) => toFile(basename(path), contents)),
  ];
}

/**
 * The files of the page: those built into the package, or bundled now, in about 100 ms, where the sources run (`npm run
 * martingale`).
 */
export async function pageFiles(): Promise<PageFile[]> {
  if (import.meta.url.endsWith('.ts')) return bundlePage();
  const names = await readdir(source);
  return Promise.all(names.map(async (name) => toFile(name, await readFile(join(source, name)))));
}

function toFile(name: string, body: Uint8Array): PageFile {
  const type = types[extname(name)];
  if (!type) throw new Error(`The page has no media type for ${name}; add one to page-files.ts.`);
  return { name, type, body };
}
