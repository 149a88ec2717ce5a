import { readFileSync } from 'node:fs';

/** Version in the `package.json` of martingale; `unknown` where there is none, or another package's. */
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

/** Version of this package; `unknown` in a program that a bundler has made one file of. */
export const martingaleVersion = readVersion(new URL('../../package.json', import.meta.url));
