// Preloaded into the programs that tests start, and into the threads of the tests: they import `martingale` from its
// source, as tsconfig.json says. Node strips the types itself and keeps what it compiled; tsx would take three times as long
// to start.
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';

const root = new URL('../../', import.meta.url);
const { compilerOptions } = JSON.parse(readFileSync(new URL('tsconfig.json', root), 'utf8'));
const sources = new Map<string, string>(
  Object.entries<string[]>(compilerOptions.paths).map(([name, [file = '']]) => [
    name,
    new URL(file, root).href,
  ]),
);

registerHooks({
  resolve(specifier, context, next) {
    const { parentURL = '' } = context;
    // A file beside the importing one. Node looks for its real path and package, which takes a third of the start of a thread.
    if (specifier.startsWith('.') && specifier.endsWith('.ts') && parentURL.startsWith(root.href))
      return { url: new URL(specifier, parentURL).href, format: 'module-typescript', shortCircuit: true };
    return next(sources.get(specifier) ?? specifier, context);
  },
});
