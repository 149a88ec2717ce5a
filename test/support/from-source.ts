// Preloaded into the programs that tests start, and into the threads of the tests: they import `martingale` from its
// source, as tsconfig.json says. Node strips the types itself and keeps what it compiled; tsx would take three times as long
// to start.
import { existsSync, readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { isMainThread } from 'node:worker_threads';

const root = new URL('../../', import.meta.url);
const { compilerOptions } = JSON.parse(readFileSync(new URL('tsconfig.json', root), 'utf8'));
const sources = new Map<string, string>(
  Object.entries<string[]>(compilerOptions.paths).map(([name, [file = '']]) => [
    name,
    new URL(file, root).href,
  ]),
);

/** Where `thread-bundles.ts` has put the modules of threads; unset outside of the tests. */
const bundles = process.env.MARTINGALE_THREAD_BUNDLES;
const sourceFolder = new URL('src/', root).href;

/** The bundle of a thread's first module; null if there is none. */
function bundleOf(specifier: string): string | null {
  if (isMainThread || !bundles || !specifier.startsWith(sourceFolder)) return null;
  const url = new URL(`${bundles}/${specifier.slice(sourceFolder.length).replace(/ts$/, 'js')}`);
  return existsSync(url) ? url.href : null;
}

registerHooks({
  resolve(specifier, context, next) {
    const { parentURL = '' } = context;
    // A file beside the importing one. Node looks for its real path and package, which takes a third of the start of a thread.
    if (specifier.startsWith('.') && specifier.endsWith('.ts') && parentURL.startsWith(root.href))
      return { url: new URL(specifier, parentURL).href, format: 'module-typescript', shortCircuit: true };
    const bundle = parentURL === '' ? bundleOf(specifier) : null;
    if (bundle !== null) return { url: bundle, format: 'module', shortCircuit: true };
    return next(sources.get(specifier) ?? specifier, context);
  },
});
