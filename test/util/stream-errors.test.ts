import { PassThrough } from 'node:stream';
import { expect, it, onTestFinished } from 'vitest';
import { listenForErrors } from '../../src/util/stream-errors.ts';

it('listens on a stream that ten threads have a listener on, without a warning of Node', async () => {
  const warnings: Error[] = [];
  const keep = (warning: Error) => warnings.push(warning);
  process.on('warning', keep);
  onTestFinished(() => void process.off('warning', keep));
  const stream = new PassThrough();
  for (let thread = 0; thread < 10; thread++) stream.on('error', () => {});
  let errors = 0;
  listenForErrors(stream, () => errors++);
  stream.emit('error', new Error('closed'));
  expect([errors, stream.getMaxListeners()]).toEqual([1, 10]);
  await new Promise(setImmediate);
  expect(warnings).toEqual([]);
  // One more of anybody else's is what Node warns of.
  stream.on('error', () => {});
  await expect.poll(() => warnings.map(({ name }) => name)).toEqual(['MaxListenersExceededWarning']);
});
