import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { serialize } from 'node:v8';
import { build, type Plugin } from 'esbuild';
import type { TestProject } from 'vitest/node';
import { builtInModels } from '../../src/engines/embedded/base-models.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const folder = join(root, '.martingale/threads');

/** The threads that tests start by the hundred. None of them imports `martingale`, which would then be there twice. */
const threads = [
  'engines/embedded/sampler/worker',
  'engines/embedded/trainer/graph-worker',
  'engines/embedded/trainer/worker',
  'language/chat/long-texts-thread',
  'language/compiler/compiler-thread',
  'service/reading-worker',
];

const initialWeights = join(root, 'src/engines/embedded/initial-weights.ts');

/** In place of `initial-weights.ts`: the weights of the models that come with the engine are made once for all threads. */
const readWeights = `
  import { readFileSync } from 'node:fs';
  import { deserialize } from 'node:v8';
  export const initializeWeights = (_, seed) => deserialize(readFileSync(\`${folder}/random-\${seed}\`));
`;

const selfTest = join(root, 'src/engines/embedded/self-test/self-test.ts');
/** Of each self-test that passed in this run of the tests, an empty file. */
const passed = join(folder, 'passed');

/**
 * Added to `self-test.ts`: what the same runtime computed rightly with the same weights and settings is not computed again
 * in the same run of the tests. That is half of the processor time of opening a small checkpoint.
 */
const remembering = `
  import { createHash } from 'node:crypto';
  import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
  import { workerData } from 'node:worker_threads';
  export async function selfTest(runtime, model) {
    const { name, device } = runtime;
    const { architecture, lora, weights } = model;
    const hash = createHash('sha256');
    hash.update(JSON.stringify([name, device, workerData.settings.threads, architecture, lora]));
    for (const [tensor, values] of weights) hash.update(\`\${tensor} \${values.length} \`).update(values);
    const file = \`${passed}/\${hash.digest('hex')}\`;
    if (existsSync(file)) return;
    await wholeSelfTest(runtime, model);
    mkdirSync('${passed}', { recursive: true });
    writeFileSync(file, '');
  }
`;

/** A module in a bundle has the address of its source. */
const ownAddresses: Plugin = {
  name: 'own addresses',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, ({ path }) => {
      if (path === initialWeights) return { contents: readWeights };
      const text = readFileSync(path, 'utf8');
      if (path === selfTest)
        return {
          contents:
            text.replace('export async function selfTest', 'async function wholeSelfTest') + remembering,
          loader: 'ts',
        };
      if (!text.includes('import.meta.url')) return null;
      const own = `const ownAddress = ${JSON.stringify(pathToFileURL(path).href)};`;
      return { contents: own + text.replaceAll('import.meta.url', 'ownAddress'), loader: 'ts' };
    });
  },
};

/**
 * Makes one file of each module that threads start with, once for all tests: a thread starts in two thirds of the processor
 * time. `from-source.ts` puts them in place of the sources. Not in watch mode, where sources change.
 */
export async function setup({ vitest }: TestProject): Promise<void> {
  if (vitest.config.watch) return;
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: threads.map((name) => `src/${name}.ts`),
    outbase: 'src',
    outdir: folder,
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'node22',
    packages: 'external',
    plugins: [ownAddresses],
  });
  rmSync(passed, { recursive: true, force: true });
  const weights = builtInModels.map((model) => ({
    path: join(folder, model.weightsHash),
    contents: serialize(model.weights),
  }));
  for (const { path, contents } of [...outputFiles, ...weights]) {
    mkdirSync(dirname(path), { recursive: true });
    // Tests of another run may read the file.
    writeFileSync(`${path}.${process.pid}`, contents);
    renameSync(`${path}.${process.pid}`, path);
  }
  process.env.MARTINGALE_THREAD_BUNDLES = pathToFileURL(folder).href;
}
