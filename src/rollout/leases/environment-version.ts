import { createHash } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { dirname, extname, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A string that names a file beside the one in which it stands, as imports and `new URL(...)` do. */
const relativePath = /(['"`])(\.{1,2}\/[^'"`\n]+)\1/g;

const isCode = (path: string): boolean => /^\.[cm]?[jt]sx?$/.test(extname(path));

/** TypeScript may import `x.ts` as `x.js`, `x` or `x/index`. */
const readings = (path: string): string[] => [
  path,
  path.replace(/\.([cm]?)js(x?)$/, '.$1ts$2'),
  ...['.ts', '.tsx', '.js', '/index.ts', '/index.js'].map((ending) => path + ending),
];

async function existing(path: string): Promise<string | undefined> {
  for (const reading of readings(path)) {
    const found = await stat(reading).catch(() => undefined);
    if (found?.isFile()) return reading;
  }
  return undefined;
}

/**
 * Hash of a module and of every file that it and its files name by relative paths, in imports or as data. By path
 * relative to the module, so that copies on other machines compare. Packages are not part of it.
 *
 * @throws the system's error if the module cannot be read.
 */
export async function environmentFiles(module: URL): Promise<Record<string, string>> {
  const entry = fileURLToPath(module);
  const paths = new Set([entry]);
  const files: Record<string, string> = {};
  for (const path of paths) {
    const content = await readFile(path);
    const name = relative(dirname(entry), path).replaceAll(sep, '/');
    files[name] = createHash('sha256').update(content).digest('hex');
    if (!isCode(path)) continue;
    for (const [, , named = ''] of content.toString().matchAll(relativePath)) {
      const found = await existing(resolve(dirname(path), named));
      if (found !== undefined && !found.includes(`${sep}node_modules${sep}`)) paths.add(found);
    }
  }
  return files;
}

/** The files that differ between two versions of an environment, the module itself first. */
export function differingFiles(
  ours: Readonly<Record<string, string>>,
  theirs: Readonly<Record<string, string>>,
): string[] {
  const all = new Set([...Object.keys(ours), ...Object.keys(theirs)]);
  return [...all].filter((file) => ours[file] !== theirs[file]);
}
