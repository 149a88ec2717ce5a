import { readFileSync } from 'node:fs';

/** The version in martingale's `package.json`; `unknown` if there is none, or it is another package's. */
export function readVersion(manifest: URL): string {
  try {
    const { name, version }: { name?: unknown; version?: unknown } = JSON.parse(
      readFileSync(manifest, 'utf8'),
    );
    return name === 'martingale' && typeof version === 'string' ? version : 'unknown';
  } catch {
    return 'unknown';
  }
}

/** Version of this package; `unknown` in a program that a bundler has joined into one file. */
export const martingaleVersion = readVersion(new URL('../../package.json', import.meta.url));
