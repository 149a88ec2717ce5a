import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import { taskBar } from '../../src/cli/task-bar.ts';

/** What a task bar writes to a stream that is a terminal, or not. */
function written(isTTY: boolean, use: (bar: ReturnType<typeof taskBar>) => void): string {
  const stream = Object.assign(new PassThrough(), { isTTY });
  use(taskBar(stream));
  return String(stream.read() ?? '');
}

it('shows the share, the time left and what is done, and goes away at the end', () => {
  const output = written(true, (bar) => {
    bar.show(3, 12, '3 of 12 rollouts');
    bar.show(12, 12);
  });
  const [before, line, after] = output.split('\r\u001b[K');
  expect([before, after]).toEqual(['', '']);
  expect(line).toMatch(/^█{5}░{15} 25%, [\d.]+ s left {2}3 of 12 rollouts$/);
});

it('writes plain lines where there is no terminal, and not one for each step', () => {
  const output = written(false, (bar) => {
    for (let done = 1; done < 100; done++) bar.show(done, 100, `${done} of 100 rollouts`);
    bar.show(100, 100);
    bar.clear();
  });
  expect(output).toMatch(/^1%, .* left {2}1 of 100 rollouts\n$/);
});
