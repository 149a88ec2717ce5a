import { readdir, readFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const source = fileURLToPath(new URL('../src/', import.meta.url));

/** From the ground up: a floor may use those after it in the list. */
const floors = [
  'cli',
  'view',
  'optimization',
  'training',
  'evaluation',
  'progress',
  'formats',
  'rollout',
  'environment',
  'model',
  'endpoint',
  'trajectory',
  'client',
  'service',
  'engines',
  'language',
  'learning',
  'telemetry',
  'util',
  'contract',
  'platform',
];

/** What only chooses what is public, from any floor. */
const doors = ['index.ts', 'environments.ts', 'loop.ts', 'records.ts', 'testing.ts', 'workers.ts'];

/** Further doors of a room, beside its `index.ts` where it has one: who comes through them does not load the rest. */
const sideDoors = [
  'contract/basics.ts',
  'engines/combined-engine.ts',
  'engines/embedded/index.ts',
  'engines/embedded/tools.ts',
  'engines/engine.ts',
  'engines/tinker/index.ts',
  'evaluation/comparison-table.ts',
  'formats/conversations/read-scenarios.ts',
  'formats/open-reward/serve/serve-environment.ts',
  'language/basics.ts',
  'language/grammars.ts',
  'progress/report.ts',
  'rollout/leases/index.ts',
];

/** Rooms whose files have nothing to do with each other, so that each file is a door. */
const withoutWalls = ['util', 'platform'];

/** The harness and the service meet on the wire alone. */
const apart: readonly (readonly [string, string])[] = [
  ...[
    'client',
    'trajectory',
    'endpoint',
    'model',
    'environment',
    'formats',
    'rollout',
    'progress',
    'evaluation',
    'training',
    'optimization',
  ].flatMap((floor) => [[floor, 'service'] as const, [floor, 'engines'] as const]),
];

async function importsOf(file: string): Promise<string[]> {
  const text = await readFile(join(source, file), 'utf8');
  return [...text.matchAll(/(?:from |import |import\(\s*)'(\.[^']+)'/g)].map(([, path = '']) =>
    relative(source, resolve(source, dirname(file), path)),
  );
}

/** The modules and packages that are loaded before a file is evaluated: not those of `import()` and types. */
async function loadedBefore(file: string): Promise<string[]> {
  const text = await readFile(join(source, file), 'utf8');
  return [...text.matchAll(/^(?:import|export)(?! type)(?: [^;']*? from)? '([^']+)';/gms)].map(
    ([, path = '']) => (path.startsWith('.') ? relative(source, resolve(source, dirname(file), path)) : path),
  );
}

/** The packages that an import of a file loads, and `node:http`, which loads the global `fetch`. */
async function packagesLoadedBy(entry: string): Promise<string[]> {
  const files = new Set([entry]);
  const packages = new Set<string>();
  for (const file of files)
    for (const loaded of await loadedBefore(file)) {
      if (loaded.endsWith('.ts')) files.add(loaded);
      else if (!loaded.startsWith('node:')) packages.add(loaded.replace(/^(@[^/]+\/)?([^/]+).*/, '$1$2'));
      else if (loaded === 'node:http') packages.add(loaded);
    }
  return [...packages].sort();
}

const floorOf = (file: string): string => file.split('/')[0] ?? '';

const allFiles = async () =>
  (await readdir(source, { recursive: true })).filter((file) => /\.tsx?$/.test(file));

/** The sets of files that import each other, in circles of any length (Tarjan, SIAM J. Comput. 1972). */
function circlesIn(imports: ReadonlyMap<string, readonly string[]>): string[][] {
  const circles: string[][] = [];
  const numbers = new Map<string, number>();
  const open: string[] = [];
  /** Gives the lowest number of an open file that this one leads back to. */
  const visit = (file: string): number => {
    const number = numbers.size;
    numbers.set(file, number);
    open.push(file);
    let lowest = number;
    for (const next of imports.get(file) ?? []) {
      if (!numbers.has(next)) lowest = Math.min(lowest, visit(next));
      else if (open.includes(next)) lowest = Math.min(lowest, numbers.get(next) ?? number);
    }
    if (lowest === number) {
      const circle = open.splice(open.indexOf(file));
      if (circle.length > 1 || imports.get(file)?.includes(file)) circles.push(circle.sort());
    }
    return lowest;
  };
  for (const file of imports.keys()) if (!numbers.has(file)) visit(file);
  return circles;
}

test('imports go down only, and through a door of the floor', async () => {
  const files = await allFiles();
  const wrong: string[] = [];
  const used = new Set<string>();
  for (const file of files.filter((name) => !doors.includes(name))) {
    const from = floorOf(file);
    for (const imported of await importsOf(file)) {
      const to = floorOf(imported);
      if (from === to) continue;
      used.add(imported);
      const isUp = floors.indexOf(to) <= floors.indexOf(from);
      const isApart = apart.some(([a, b]) => a === from && b === to);
      const isThroughWall =
        !withoutWalls.includes(to) && ![`${to}/index.ts`, ...sideDoors].includes(imported);
      if (isUp || isApart || isThroughWall) wrong.push(`${file} imports ${imported}`);
    }
  }
  expect(wrong).toEqual([]);
  expect(sideDoors.filter((door) => !used.has(door))).toEqual([]);
});

test('no files import each other in a circle, not for types either', async () => {
  const files = await allFiles();
  const imports = new Map<string, string[]>();
  for (const file of files) imports.set(file, await importsOf(file));
  expect(circlesIn(imports)).toEqual([]);
});

test('a file of fewer than 10 lines is shared by others, or the door of its folder', async () => {
  const files = await allFiles();
  const imports = (await Promise.all(files.map(importsOf))).flat();
  const dust: string[] = [];
  for (const file of files.filter((name) => !/(^|\/)index\.ts$/.test(name))) {
    const lines = (await readFile(join(source, file), 'utf8')).trimEnd().split('\n').length;
    if (lines < 10 && imports.filter((imported) => imported === file).length < 2) dust.push(file);
  }
  expect(dust).toEqual([]);
});

test('every entry of the package looks at the version of Node before anything else', async () => {
  const manifest: { bin: Record<string, string>; exports: Record<string, string | { default: string }> } =
    JSON.parse(await readFile(join(source, '../package.json'), 'utf8'));
  const built = [
    ...Object.values(manifest.bin),
    ...Object.values(manifest.exports).flatMap((entry) => (typeof entry === 'string' ? [] : [entry.default])),
  ];
  expect(built).toHaveLength(12);
  for (const path of built) {
    const file = path.replace('./dist/', '').replace('.js', '.ts');
    expect([file, (await importsOf(file))[0]]).toEqual([file, 'platform/check-node.ts']);
  }
});

test('nothing imports by name what an older Node lacks, which fails before the version is looked at', async () => {
  const files = await allFiles();
  const lacking = [
    /^import (?!type).* from 'node:sqlite'/m,
    /^import \{[^}]*\bhash\b[^}]*\} from 'node:crypto'/m,
    /^import \{[^}]*\bstyleText\b[^}]*\} from 'node:util'/m,
  ];
  for (const file of files) {
    const text = await readFile(join(source, file), 'utf8');
    expect([file, lacking.filter((pattern) => pattern.test(text))]).toEqual([file, []]);
  }
});

test('no list is spread into Math.max or Math.min, which throw for long ones', async () => {
  for (const file of await allFiles()) {
    const text = await readFile(join(source, file), 'utf8');
    expect([file, /Math\.(max|min)\([^)]*\.\.\./.test(text)]).toEqual([file, false]);
  }
});

test('every module that is started by its URL is built as a file of its own', async () => {
  const found = new Set<string>();
  for (const file of await allFiles()) {
    const text = await readFile(join(source, file), 'utf8');
    // `workerModule` takes a path relative to its own file.
    for (const [, path = ''] of text.matchAll(/workerModule\(\s*'([^']+)'/g))
      found.add(join('engines/embedded/threads', path));
    for (const [, path = ''] of text.matchAll(/`(\.[^`$]+)\$\{import\.meta\.url\.endsWith/g))
      found.add(join(dirname(file), path));
  }
  const build = await readFile(join(source, '../build.ts'), 'utf8');
  const [, list = ''] = /const started = \[([^\]]*)\]/.exec(build) ?? [];
  const started = [...list.matchAll(/'([^']+)'/g)].map(([, path]) => path);
  expect([...found].sort()).toEqual(started.sort());
});

const ofClient = ['@opentelemetry/api', 'eventsource-parser', 'zod'];
const ofRollouts = [...ofClient, '@ai-sdk/provider', 'lru-cache'];
const ofHarness = [...ofRollouts, 'p-queue'];
const ofLanguage = ['@huggingface/jinja', '@huggingface/tokenizers', 'lru-cache'];

// The time of a start is mostly the number of modules. Loaded at first use elsewhere: undici, the AI SDK, ONNX Runtime.
test.each([
  ['index.ts', ofHarness],
  ['loop.ts', ofHarness],
  ['records.ts', ofHarness],
  ['testing.ts', ofHarness],
  ['workers.ts', [...ofRollouts, 'undici']],
  ['environments.ts', [...ofRollouts, 'undici']],
  ['client/index.ts', ofClient],
  ['rollout/threads/thread.ts', ofRollouts],
  ['cli/index.ts', [...ofHarness, 'commander']],
  ['cli/main.ts', ['commander', 'zod']],
  ['cli/keys.ts', ['commander', 'zod']],
  ['engines/embedded/index.ts', ofLanguage],
  ['engines/embedded/tools.ts', ofLanguage],
  ['engines/tinker/index.ts', [...ofLanguage, 'undici', 'zod']],
  ['engines/embedded/sampler/worker.ts', ofLanguage],
  ['engines/embedded/trainer/worker.ts', ofLanguage],
  ['language/compiler/compiler-thread.ts', ofLanguage],
  ['service/reading-worker.ts', [...ofLanguage, '@opentelemetry/api', 'hono', 'zod']],
])('importing %s loads only what it needs at once', async (entry, packages) => {
  expect(await packagesLoadedBy(entry)).toEqual(packages.toSorted());
});

/** An import within a room: of two entries of the same folder, each a folder or a file. */
interface InnerImport {
  folder: string;
  from: string;
  to: string;
  text: string;
}

async function importsWithinRooms(): Promise<InnerImport[]> {
  const found: InnerImport[] = [];
  for (const file of await allFiles())
    for (const imported of await importsOf(file)) {
      const [path, target] = [file.split('/'), imported.split('/')];
      let depth = 0;
      while (depth < path.length && path[depth] === target[depth]) depth++;
      const [from, to] = [path[depth], target[depth]];
      if (depth === 0 || from === undefined || to === undefined) continue;
      found.push({ folder: path.slice(0, depth).join('/'), from, to, text: `${file} imports ${imported}` });
    }
  return found;
}

/** The circles, each followed by its imports, of which those that go against most others come first. */
function circlesOf(imports: readonly InnerImport[]): string[] {
  const byFolder = Map.groupBy(imports, ({ folder }) => folder);
  return [...byFolder].flatMap(([folder, own]) => {
    const byEntry = Map.groupBy(own, ({ from }) => from);
    const targets = new Map([...byEntry].map(([from, list]) => [from, list.map(({ to }) => to)]));
    return circlesIn(targets).flatMap((circle) => {
      const inside = own.filter(({ from, to }) => circle.includes(from) && circle.includes(to));
      const count = (from: string, to: string) =>
        inside.filter((one) => one.from === from && one.to === to).length;
      const surplus = ({ from, to }: InnerImport) => count(from, to) - count(to, from);
      const texts = inside.sort((a, b) => surplus(a) - surplus(b)).map(({ text }) => text);
      return [`${folder}: ${circle.join(', ')}`, ...texts];
    });
  });
}

test('the folders of a room, and the files beside them, import each other one way', async () => {
  expect(circlesOf(await importsWithinRooms())).toEqual([]);
});

test('only files of tests name the tag `long`: others are not looked at for it', async () => {
  const named: string[] = [];
  for (const file of await readdir('test', { recursive: true }))
    if (file.endsWith('.ts') && !file.endsWith('.test.ts'))
      if ((await readFile(`test/${file}`, 'utf8')).includes("'long'")) named.push(file);
  expect(named).toEqual([]);
});
