import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { configDefaults, defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { memoryFolder } from './test/support/memory-folder.ts';

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));

/**
 * These change or count what a process has once: OpenTelemetry's providers, the Worker that the autodiff library looks
 * for, the child process that renders templates.
 */
const isolated = [
  'test/telemetry/**/*.test.ts',
  'test/training/spans.test.ts',
  'test/environment/tools.test.ts',
  'test/endpoint/tracing.test.ts',
  'test/conformance/otlp/otlp.test.ts',
  'test/engines/embedded/graphs/training.test.ts',
  'test/faults/machine/template-process.test.ts',
];

/** What takes minutes in the long tier, longest first: it starts first, so that no file is alone at the end. */
const longest = [
  'conformance/published/smollm2',
  'conformance/skyrl/skyrl',
  'faults/service-kills/service-kills',
  'conformance/published/tokenizers',
  'endpoint/claude-agent',
  'recipes/recipes',
  'faults/machine/killed-step',
  'conformance/open-env/open-env',
  'conformance/published/generated',
  'faults/harness-kills/harness-kills',
  'conformance/open-reward/open-reward',
  'training/resume/resume',
  'engines/embedded/webgpu/webgpu',
  'conformance/art/art',
  'faults/machine/engine-threads',
  'cli/init',
  'conformance/exports/inspect',
].map((name) => path(`./test/${name}.test.ts`));

/** Whether a file may have tests with the tag `long`: `test/structure.test.ts` holds that no other file names it. */
const hasLong = ({ moduleId }: TestSpecification) => readFileSync(moduleId, 'utf8').includes("'long'");

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => longest.indexOf(moduleId) + 1 || longest.length + 1;
    // To import the others takes half a minute of processor time, and nothing in them would run.
    const asked = String(this.ctx.config.tagsFilter) === 'long' ? files.filter(hasLong) : files;
    return (await super.sort(asked)).sort((a, b) => rank(a) - rank(b));
  }
}

const temporary = process.env.TMPDIR ? null : memoryFolder();

export default defineConfig({
  test: {
    tags: [
      {
        name: 'long',
        description: 'Takes long and covers more of what a short test covers: only in `npm run test:long`.',
        timeout: 900_000,
      },
    ],
    // Node imports the sources itself, as it does for users: tests take a tenth less processor time, because a use of what a
    // module imports is not a call.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    pool: 'forks',
    // More than cores: many tests wait for processes and timers.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    // `martingale` is its source. The threads of the tests start in two thirds of the time.
    execArgv: ['--import', new URL('./test/support/from-source.ts', import.meta.url).href],
    env: {
      // The processes that tests start take compiled modules from here: half the time of their start.
      NODE_COMPILE_CACHE: path('./node_modules/.cache/node-compile'),
      // `TMPDIR` names another place, such as a disk.
      ...(temporary === null ? {} : { TMPDIR: temporary }),
    },
    globalSetup: [path('./test/support/thread-bundles.ts')],
    setupFiles: [path('./test/support/quiet.ts')],
    restoreMocks: true,
    unstubEnvs: true,
    // A machine under load may take seconds for what takes milliseconds on a quiet one.
    expect: { poll: { interval: 10, timeout: 30_000 } },
    testTimeout: 60_000,
    hookTimeout: 60_000,
    projects: [
      {
        extends: true,
        test: {
          name: 'shared',
          include: ['test/**/*.test.ts'],
          exclude: [...configDefaults.exclude, ...isolated],
          // A worker runs many files and imports what they share once: a third of the processor time of a worker per file.
          isolate: false,
        },
      },
      { extends: true, test: { name: 'isolated', include: isolated } },
    ],
  },
});
