import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { build, type Plugin } from 'esbuild';
import { bundlePage } from './src/view/page-files.ts';

/**
 * Builds the package: `node build.ts [FOLDER]`, by default `dist`. The modules that several entries share are joined
 * into a few files in `chunks`, because the time of an import is mostly the number of files. Declarations are the
 * compiler's, one for each module; dependencies stay imports.
 */
const root = import.meta.dirname;
const source = join(root, 'src');
const out = resolve(process.argv[2] ?? join(root, 'dist'));
const manifest: { bin: Record<string, string>; exports: Record<string, string | { default: string }> } =
  JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

const entries = [
  ...Object.values(manifest.bin),
  ...Object.values(manifest.exports).flatMap((entry) => (typeof entry === 'string' ? [] : [entry.default])),
].map((path) => path.replace('./dist/', '').replace('.js', ''));

/** Modules of threads and processes, which are started by their URL. */
const started = [
  'engines/embedded/sampler/worker',
  'engines/embedded/trainer/graph-worker',
  'engines/embedded/trainer/worker',
  'language/chat/long-texts-thread',
  'language/compiler/compiler-thread',
  'language/extensions/request-template/template-process',
  'rollout/threads/thread',
  'service/reading-worker',
];
const nodeCheck = 'platform/check-node';

/**
 * `import.meta.url` is the address that the module had if it were a file of its own. esbuild puts the name
 * `moduleAddress` in its place, in code and not in texts.
 */
const ownAddresses: Plugin = {
  name: 'own addresses',
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /^package-folder$/ }, ({ path }) => ({ path, namespace: 'built' }));
    // Used by several entries, so it is in `chunks`.
    onLoad({ filter: /^package-folder$/, namespace: 'built' }, () => ({
      // Not written `import.meta.url`, which would be replaced here too.
      contents: `const { url } = import.meta;\nexport const packageFolder = new URL('..', url).href;`,
    }));
    onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const text = readFileSync(path, 'utf8');
      if (!text.includes('import.meta.url')) return null;
      const own = relative(source, path).replaceAll('\\', '/').replace(/\.ts$/, '.js');
      // On the first line, so that the lines of the source map stay right.
      const address = `import { packageFolder } from 'package-folder'; const moduleAddress = packageFolder + '${own}';`;
      return { contents: `${address}${text}`, loader: 'ts' };
    });
  },
};

/** Joined files import packages before anything of ours runs, so entries import this one themselves, first. */
const checkNodeFirst: Plugin = {
  name: 'check Node first',
  setup({ onLoad }) {
    onLoad({ filter: /platform[\\/]check-node\.ts$/ }, () => ({ contents: '', loader: 'ts' }));
  },
};

rmSync(out, { recursive: true, force: true });
const compiler = join(root, 'node_modules/typescript/bin/tsc');
const declarations = ['-p', join(root, 'tsconfig.build.json'), '--emitDeclarationOnly', '--outDir', out];
// `npm run types` checks the sources. To check them here too takes four times the processor time.
const emitted = [...declarations, '--noCheck', '--singleThreaded'];
execFileSync(process.execPath, [compiler, ...emitted], { stdio: 'inherit' });

const common = {
  absWorkingDir: root,
  outdir: out,
  outbase: source,
  platform: 'node',
  target: 'node22',
} as const;
const fileOf = (name: string) => join(source, `${name}.ts`);
await build({ ...common, entryPoints: [fileOf(nodeCheck)], format: 'esm' });
const { metafile } = await build({
  ...common,
  entryPoints: [...entries, ...started].map(fileOf),
  bundle: true,
  splitting: true,
  format: 'esm',
  packages: 'external',
  sourcemap: true,
  chunkNames: 'chunks/[name]-[hash]',
  metafile: true,
  define: { 'import.meta.url': 'moduleAddress' },
  plugins: [checkNodeFirst, ownAddresses],
});
const folderFile = Object.entries(metafile.outputs).find(
  ([, { inputs }]) => 'built:package-folder' in inputs,
);
if (folderFile && dirname(resolve(root, folderFile[0])) !== join(out, 'chunks'))
  throw new Error(`${folderFile[0]} is not in chunks, so addresses in it would be wrong.`);

for (const entry of entries) {
  const path = join(out, `${entry}.js`);
  const check = relative(dirname(path), join(out, `${nodeCheck}.js`)).replaceAll('\\', '/');
  const address = check.startsWith('.') ? check : `./${check}`;
  const text = readFileSync(path, 'utf8');
  const [hashbang = ''] = /^#!.*\n/.exec(text) ?? [];
  // On the line of the first import, so that the lines of the source map stay right.
  writeFileSync(path, `${hashbang}import '${address}';${text.slice(hashbang.length)}`);
}
const builtIn = 'engines/embedded/built-in';
for (const name of [
  'tokenizer.json',
  'tokenizer_config.json',
  'generation_config.json',
  'chat_template.jinja',
])
  cpSync(join(source, builtIn, name), join(out, builtIn, name));

const templates = 'cli/init/templates';
cpSync(join(source, templates), join(out, templates), { recursive: true });

mkdirSync(join(out, 'view/page'), { recursive: true });
for (const { name, body } of await bundlePage()) writeFileSync(join(out, 'view/page', name), body);
