import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import { start } from '../../service/harness.ts';
import { temporaryFolder } from '../../support/files.ts';
import { startServer } from '../../support/http-server.ts';
import { root } from '../../support/programs.ts';
import { CoinEngine } from '../../training/resume/coin-engine.ts';

const next = /\n {2}npx tsx test\/cli\/recipe\/coin-recipe.ts (.+)\n$/;

/** Training on a remote service needs neither the runtime nor the server, which may not be installed. */
const withoutRuntime = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from 'node:module';
  const refused = /onnxruntime|@hono|engines\\/embedded|src\\/service/;
  registerHooks({
    resolve(specifier, context, next) {
      if (refused.test(specifier)) throw new Error('It loads ' + specifier);
      return next(specifier, context);
    },
  });
`)}`;

/** A recipe in a process of its own. */
async function run(flags: readonly string[], recipe = 'coin-recipe') {
  const child = spawn(
    process.execPath,
    [
      '--import',
      withoutRuntime,
      '--import',
      'tsx',
      `test/cli/recipe/${recipe}.ts`,
      ...(recipe === 'coin-recipe' ? ['--json'] : []),
      ...flags,
    ],
    {
      ...{ cwd: root, env: { ...process.env, MARTINGALE_API_KEY: 'test-key' } },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  const closed = once(child, 'close');
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  const [code] = await closed;
  return { code, output, errors };
}

it('a recipe that fails prints the command that resumes its run, if there is one', {
  tags: ['long'],
}, async () => {
  const engine = new CoinEngine();
  const { call, service } = await start({ engine });
  const runDirectory = join(await temporaryFolder(), 'coin');
  const flags = ['--base-model', 'scripted-tiny', '--base-url', service.url, '--run-directory', runDirectory];

  const unknown = await run([...flags, '--api-key', 'another']);
  expect(unknown).toMatchObject({ code: 1, errors: expect.stringContaining('[authentication_failed]') });
  expect(unknown.errors).not.toMatch(next);

  engine.failTraining = new Error('out of memory');
  const failed = await run(flags);
  engine.failTraining = null;
  expect(failed).toMatchObject({ code: 1, errors: expect.stringContaining('[training_job_failed]') });
  const command = next.exec(failed.errors)?.[1]?.split(' ') ?? [];
  expect(command).toContain('--resume');

  const otherwise = await run([...command, '--groups', '3']);
  expect(otherwise).toMatchObject({ code: 1, errors: expect.stringContaining('[resume_refused]') });
  expect(otherwise.errors).not.toMatch(next);

  expect(await run(command)).toMatchObject({ code: 0, errors: '' });

  const models = async () => (await call('GET', '/v1/preview/models')).body.data;
  const [{ id, name }] = await models();
  expect(name).toBe(basename(runDirectory));
  await call('DELETE', `/v1/preview/models/${id}`);
  const missing = await run([...command, '--steps', '3']);
  expect(missing).toMatchObject({
    code: 1,
    errors: expect.stringContaining('which the service no longer has'),
  });
  expect(missing.errors).not.toMatch(next);
  expect(await models()).toEqual([]);
});

it('a recipe whose reward throws shows file, line and column', async () => {
  const { service } = await start({ engine: new CoinEngine() });
  const runDirectory = join(await temporaryFolder(), 'faulty');
  const flags = ['--base-model', 'scripted-tiny', '--base-url', service.url, '--run-directory', runDirectory];
  const { output } = await run(flags, 'faulty-recipe');

  const file = 'test/cli/recipe/faulty-recipe.ts';
  const lines = (await readFile(join(root, file), 'utf8')).split('\n');
  const line = lines.findIndex((one) => one.includes('const sideOf'));
  const location = `${file}:${line + 1}:${(lines[line] ?? '').indexOf('side;') + 1}`;
  expect(output).toMatch(/! \d+ rollouts? of step 0 failed: The reward "heads" threw: Cannot read/);
  expect(output).toContain(`[reward_failed] at ${location}\n`);

  const events = await readFile(join(runDirectory, 'training/events.jsonl'), 'utf8');
  expect(events).toContain(`"at":"${join(root, location)}"`);
  const record = await readFile(join(runDirectory, 'training/trajectories/step-0000.jsonl'), 'utf8');
  expect(record).toMatch(/"code":"reward_failed".*Caused by: TypeError: Cannot read.*at sideOf/);
}, 120_000);

it('a service that does not answer is named during the wait', { tags: ['long'] }, async () => {
  const { url, close } = await startServer();
  const child = spawn(
    process.execPath,
    [
      ...['--import', 'tsx', 'test/cli/recipe/coin-recipe.ts', '--json', '--base-url', url],
      ...['--run-directory', join(await temporaryFolder(), 'coin')],
    ],
    {
      cwd: root,
      env: { ...process.env, MARTINGALE_API_KEY: 'test-key' },
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  let said = '';
  for await (const chunk of child.stderr) {
    said += chunk;
    if (said.includes('No answer')) child.kill('SIGKILL');
  }
  await close();
  expect(said).toContain(`No answer from ${url} yet.`);
});
