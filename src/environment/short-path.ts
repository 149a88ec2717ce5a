import { isAbsolute, relative } from 'node:path';

/** A path as a person in the working folder would write it: from there where it lies inside, whole elsewhere. */
export function shortPath(path: string): string {
  const near = relative('', path);
  return near === '' || near.startsWith('..') || isAbsolute(near) ? path : near;
}
