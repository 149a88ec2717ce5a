import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isMainThread } from 'node:worker_threads';
import type { LogitsProcessorFactory } from '../../../../src/engines/embedded/index.ts';

/** Leaves the logits as they are. Once used while `folder` holds a file `armed`, the thread ends when it holds `end`. */
const late: LogitsProcessorFactory = ({ kwargs }) => {
  const fileOf = (name: string) => join(String(kwargs.folder), name);
  return () => {
    if (isMainThread || !existsSync(fileOf('armed'))) return;
    rmSync(fileOf('armed'));
    setInterval(() => {
      if (!existsSync(fileOf('end'))) return;
      writeFileSync(fileOf('ended'), '');
      throw new Error('ended between two steps');
    }, 5);
  };
};
export default late;
