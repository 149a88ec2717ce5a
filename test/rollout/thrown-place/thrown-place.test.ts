import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { z } from 'zod';

const program = fileURLToPath(new URL('./program.ts', import.meta.url));
const faulty = fileURLToPath(new URL('./faulty.ts', import.meta.url));
const source = readFileSync(faulty, 'utf8').split('\n');

/** `file:line:column` of a text in the environment's source. */
function placeOf(line: string, within: string): string {
  const at = source.findIndex((one) => one.includes(line));
  return `${faulty}:${at + 1}:${(source[at] ?? '').indexOf(within) + 1}`;
}

const printed = z.object({
  where: z.string(),
  throws: z.string(),
  failure: z
    .object({
      code: z.string(),
      message: z.string(),
      at: z.string().optional(),
      stack: z.string().optional(),
    })
    .optional(),
  logs: z.array(z.string()).optional(),
});

/** Failures by where the rollouts ran and by what they throw. */
async function run() {
  const child = spawn(process.execPath, ['--import', 'tsx', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [output] = await Promise.all([text(child.stdout), once(child, 'close')]);
  const rollouts = output
    .trim()
    .split('\n')
    .map((line) => printed.parse(JSON.parse(line)));
  return (where: string, throws: string) =>
    rollouts.find((rollout) => rollout.where === where && rollout.throws === throws);
}

test('errors of an environment are recorded with file, line and column, through tsx and from worker threads', async () => {
  const find = await run();
  const board = placeOf('const readBoard', 'rows.length');
  for (const where of ['process', 'threads']) {
    const failure = (throws: string) => find(where, throws)?.failure;

    expect(failure('agent')).toMatchObject({ code: 'TypeError', at: board });
    expect(failure('agent')?.stack).toMatch(
      /^TypeError: Cannot read properties of undefined[^\n]*\n\s+at readBoard/,
    );

    expect(failure('wrapped')).toMatchObject({
      code: 'Error',
      message: 'my agent failed',
      at: placeOf("throw new Error('my agent failed'", 'new Error'),
    });
    expect(failure('wrapped')?.stack).toMatch(/\nCaused by: TypeError: Cannot read properties/);
    expect(failure('wrapped')?.stack).toContain(board);

    expect(failure('setup')).toMatchObject({
      code: 'setup_failed',
      at: placeOf("new Error('no table')", "new Error('no table')"),
    });
    expect(failure('reward')).toMatchObject({ code: 'reward_failed', at: board });
    expect(failure('handler')).toMatchObject({
      code: 'on_error_failed',
      at: placeOf("new TypeError('cannot handle'", 'new TypeError'),
    });
    expect(failure('handler')?.stack).toContain(placeOf("new Error('handle me')", 'new Error'));

    // The AI SDK reports the error only to the model.
    expect(find(where, 'tool')?.logs).toEqual([
      `The tool "look" threw: too dark (at ${placeOf("new RangeError('too dark'", 'new RangeError')})`,
    ]);
  }
}, 60_000);
