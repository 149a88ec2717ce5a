import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { root } from './support/programs.ts';

/** Exported for the compiler only, which names these types in the declarations of functions that return them. */
const namedInDeclarations = [
  'src/rollout/group-record.ts FailureRecord',
  'src/rollout/group-record.ts RolloutRecord',
];

/** A file that imports a name, or exports it again as another one. */
interface Taker {
  file: string;
  exportedAs: string | null;
}

const everything = '*';

/** The text of every file that may import from `src/`, by its path. */
async function readPrograms(): Promise<Map<string, string>> {
  const folders = await Promise.all(
    ['src', 'test', 'recipes', 'examples'].map(async (folder) =>
      (await readdir(join(root, folder), { recursive: true })).map((file) => join(folder, file)),
    ),
  );
  const files = ['build.ts', ...folders.flat().filter((file) => /\.tsx?$/.test(file))];
  return new Map(
    await Promise.all(files.map(async (file) => [file, await readFile(join(root, file), 'utf8')] as const)),
  );
}

/** The names in the braces of an import or export: what it is called there, and here. */
const namesIn = (braces: string): (readonly [string, string])[] =>
  [...braces.matchAll(/(?:type )?([\w$]+)(?: as ([\w$]+))?/g)].map(([, name = '', as = name]) => [name, as]);

/** The takers of names, by the file and the name that they take. */
function takersIn(programs: ReadonlyMap<string, string>): Map<string, Taker[]> {
  const takers = new Map<string, Taker[]>();
  const take = (from: string, name: string, taker: Taker) => {
    const key = `${from} ${name}`;
    takers.set(key, [...(takers.get(key) ?? []), taker]);
  };
  for (const [file, text] of programs) {
    const statements = text.matchAll(/^(import|export) (?:type )?(\{[^}]*\}|\*)[^;']*from '(\.[^']+)'/gm);
    for (const [, keyword, what = '', path = ''] of statements) {
      const names = what === everything ? [[everything, everything] as const] : namesIn(what);
      for (const [name, as] of names)
        take(join(dirname(file), path), name, { file, exportedAs: keyword === 'export' ? as : null });
    }
    // What such an import gives is used in many ways, so every word of the file counts.
    const words = new Set(text.match(/[\w$]+/g));
    for (const [, path = ''] of text.matchAll(/\bimport\(\s*'(\.[^']+)'/g))
      for (const name of words) take(join(dirname(file), path), name, { file, exportedAs: null });
  }
  return takers;
}

function exportsOf(text: string): string[] {
  const declared = text.matchAll(
    /^export (?:abstract |async )?(?:class|const|function|interface|type)\*? ([\w$]+)/gm,
  );
  const listed = text.matchAll(/^export (?:type )?(\{[^}]*\})/gm);
  return [
    ...Array.from(declared, ([, name = '']) => name),
    ...Array.from(listed, ([, braces = '']) => namesIn(braces).map(([, as]) => as)).flat(),
  ];
}

it('every export of src/ is public or imported by another file, and no code is there for tests alone', async () => {
  const programs = await readPrograms();
  const takers = takersIn(programs);
  const manifest: { exports: Record<string, string | { default: string }> } = JSON.parse(
    await readFile(join(root, 'package.json'), 'utf8'),
  );
  const publicDoors = Object.values(manifest.exports).flatMap((entry) =>
    typeof entry === 'string' ? [] : [entry.default.replace('./dist/', 'src/').replace('.js', '.ts')],
  );
  const isUsed = (file: string, name: string, counts: (taker: Taker) => boolean): boolean =>
    publicDoors.includes(file) ||
    [name, everything].some((taken) =>
      takers
        .get(`${file} ${taken}`)
        ?.some(
          (taker) =>
            counts(taker) &&
            (taker.exportedAs === null ||
              isUsed(taker.file, taker.exportedAs === everything ? name : taker.exportedAs, counts)),
        ),
    );
  const isProgram = ({ file }: Taker) => !file.startsWith('test/');
  const unused: string[] = [];
  for (const [file, text] of programs) {
    // Templates are programs of users.
    if (!file.startsWith('src/') || file.startsWith('src/cli/init/templates/')) continue;
    // A test may look into a file, at what the file itself uses.
    const usesItself = (name: string) =>
      (text.match(new RegExp(`(?<![\\w$])${name}(?![\\w$])`, 'g')) ?? []).length > 1;
    for (const name of exportsOf(text))
      if (!isUsed(file, name, usesItself(name) ? () => true : isProgram)) unused.push(`${file} ${name}`);
  }
  expect(unused.sort()).toEqual(namedInDeclarations);
});
