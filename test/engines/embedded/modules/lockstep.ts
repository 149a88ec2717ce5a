import { appendFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import type { LogitsProcessorFactory } from '../../../../src/engines/embedded/index.ts';

/**
 * Writes down whose token is sampled. Where it is told to, it holds the thread at one token until the caller has gone
 * on: what the caller sends before that is there when the step ends.
 */
const lockstep: LogitsProcessorFactory = ({ kwargs }) => {
  const { folder, name, holdAt } = kwargs;
  if (typeof folder !== 'string') throw new Error('folder: the folder to write into');
  return ({ reply }) => {
    appendFileSync(join(folder, 'sampled'), `${name}\n`);
    if (reply.length !== holdAt) return;
    appendFileSync(join(folder, 'held'), '');
    while (!existsSync(join(folder, 'go')));
  };
};

export default lockstep;
