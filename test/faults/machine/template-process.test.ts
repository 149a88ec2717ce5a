import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { start } from '../../service/harness.ts';

/** Ids of the processes that render templates for this one. */
function processes(): number[] {
  try {
    const found = execFileSync('pgrep', ['-P', String(process.pid), '-f', 'template-process'], {
      encoding: 'utf8',
    });
    return found.trim().split('\n').map(Number);
  } catch {
    return [];
  }
}

const greeting = '{{ messages[0].content }}';
/** Takes its whole time. */
const long = '{% for a in range(3000) %}{% for b in range(3000) %}{% endfor %}{% endfor %}';

/** Ends the process as soon as there is one. */
async function killed(known: readonly number[]): Promise<void> {
  for (;;) {
    const found = processes().filter((pid) => !known.includes(pid));
    for (const pid of found) process.kill(pid, 'SIGKILL');
    if (found.length > 0) return;
    await new Promise(setImmediate);
  }
}

test('a template process that is killed while it renders gives a 503, and another renders the next template', async () => {
  const { chat } = await start();
  const [answer] = await Promise.all([chat({ chat_template: long }), killed(processes())]);
  expect(answer).toMatchObject({ status: 503, body: { error: { code: 'templates_unavailable' } } });
  expect(answer.headers.get('retry-after')).toBe('1');
  expect((await chat({ chat_template: greeting })).status).toBe(200);
});

test('an idle template process that is killed is replaced', async () => {
  const { chat } = await start();
  expect((await chat({ chat_template: greeting })).status).toBe(200);
  const before = processes();
  for (const pid of before) process.kill(pid, 'SIGKILL');
  while (processes().some((pid) => before.includes(pid))) await new Promise(setImmediate);
  // The event of its end may come some ticks after the system has forgotten the process.
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect((await chat({ chat_template: greeting })).status).toBe(200);
});

test('a template process that gets no processor is ended after half a minute, and another renders the next template', {
  tags: ['long'],
}, async () => {
  const { chat } = await start();
  expect((await chat({ chat_template: greeting })).status).toBe(200);
  for (const pid of processes()) process.kill(pid, 'SIGSTOP');
  const answer = await chat({ chat_template: greeting });
  expect(answer).toMatchObject({ status: 503, body: { error: { code: 'templates_unavailable' } } });
  expect((await chat({ chat_template: greeting })).status).toBe(200);
});
