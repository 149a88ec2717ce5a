import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { LogitsProcessorFactory } from '../../../../src/engines/embedded/index.ts';

/** Different ways to end a thread. */
const ways: Record<string, () => void> = {
  throw: () => setImmediate(() => throwLate()),
  exit: () => process.exit(3),
  allocate: () => {
    const kept: number[][] = [];
    for (;;) kept.push(Array.from({ length: 100_000 }, (_, index) => index + kept.length));
  },
  loop: () => {
    for (;;);
  },
};

function throwLate(): never {
  throw new Error('thrown behind the back of the engine');
}

/** Leaves the logits as they are, except while `folder` holds a file `armed`; `once` disarms it first. */
const deadly: LogitsProcessorFactory = ({ kwargs }) => {
  const { folder, way, once } = kwargs;
  const fuse = join(String(folder), 'armed');
  return () => {
    if (!existsSync(fuse)) return;
    if (once === true) rmSync(fuse);
    ways[String(way)]?.();
  };
};
export default deadly;
