import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createClient } from '../../../src/client/index.ts';
import { llama } from '../../../src/engines/embedded/checkpoint/families/llama.ts';
import { ggufNames } from '../../../src/engines/embedded/checkpoint/gguf-names.ts';
import { readCheckpoint } from '../../../src/engines/embedded/checkpoint/read-checkpoint.ts';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import { inspectCheckpoint } from '../../../src/engines/embedded/open-checkpoint.ts';
import { startService } from '../../../src/service/index.ts';
import { temporaryFolder } from '../../support/files.ts';
import { fromSource, root } from '../../support/programs.ts';
import { llamaCpp, publishedGguf, referencePython } from './packages.ts';

const run = promisify(execFile);
const what = 'SmolLM2-135M-Instruct: reading, learning, kill and resume, export to llama.cpp';

const questions = [
  'What is the capital of France?',
  'Name three colours.',
  'What is 2 + 2?',
  'Write one sentence about the sea.',
  'Who wrote Hamlet?',
  'Translate "good morning" into French.',
  'What do bees make?',
  'Is the sun a star?',
  'Count from 1 to 5.',
  'What day comes after Monday?',
];

/** Other tests run at the same time, so only a machine that does nothing else can tell seconds: `MARTINGALE_QUIET=1`. */
const timeFactor = process.env.MARTINGALE_QUIET ? 1.5 : 6;

async function inLlamaCpp(packages: string, files: readonly string[], prompts: readonly object[]) {
  const program = join(import.meta.dirname, 'llama.mjs');
  const child = spawn(process.execPath, [program, packages, ...files], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  child.stdin.end(JSON.stringify(prompts));
  const results: { tokens: number[]; reply: string }[] = JSON.parse(await text(child.stdout));
  return results;
}

/** A service with a checkpoint, and its language. Call `close` at the end. */
async function served(folder: string, dataFolder: string) {
  const engine = await createEmbeddedEngine({ threads: 2, checkpoints: [{ folder, contextLength: 512 }] });
  const service = await startService({ engine, dataFolder });
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  onTestFinished(async () => {
    await client.close();
    await service.close();
    await engine.close();
  });
  return { service, client, language: (await inspectCheckpoint({ folder })).language };
}

/** The questions as prompts of a model, with its greedy replies of up to 24 tokens. */
function asked({ client, language }: Awaited<ReturnType<typeof served>>, model: string) {
  // At once: the weights are read once for each token of all replies, and a reply has the same bits in any batch.
  return Promise.all(
    questions.map(async (content) => {
      const answer = await client.chat.completions.create({
        model,
        messages: [{ role: 'user', content }],
        temperature: 0,
        max_tokens: 24,
        return_token_ids: true,
      });
      const tokens = [...(answer.prompt_token_ids ?? [])];
      const text = tokens.map((token) => language.tokenizer.text(token)).join('');
      return { text, tokens, reply: answer.choices[0]?.message.content ?? '' };
    }),
  );
}

/** Rounding differs between runtimes, so a reply may leave the other at a near tie. */
function expectAlike(own: readonly { reply: string }[], others: readonly { reply: string }[], least: number) {
  const alike = own.filter(({ reply }, index) => reply === others[index]?.reply);
  expect(
    alike.length,
    JSON.stringify(own.map(({ reply }, index) => [reply, others[index]?.reply])),
  ).toBeGreaterThanOrEqual(least);
}

/** A recipe's process and what it writes. */
function startRecipe(flags: readonly string[]): ChildProcess & { lines: string[] } {
  const program = [...fromSource, 'recipes/extract/train.ts', '--json', ...flags];
  const child = spawn(process.execPath, program, { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const lines: string[] = [];
  let rest = '';
  child.stdout.setEncoding('utf8').on('data', (piece: string) => {
    const all = (rest + piece).split('\n');
    rest = all.pop() ?? '';
    lines.push(...all);
  });
  return Object.assign(child, { lines });
}

const ended = (child: ChildProcess) => new Promise((resolve) => child.once('exit', resolve));

describe('a published model', { tags: ['long'] }, () => {
  it('has the numbers that the gguf package of Python reads', async ({ skip }) => {
    const [python, gguf] = [await referencePython(what), await publishedGguf(what)];
    if (python === null || gguf === null) return skip();
    const { stdout } = await run(python, [join(import.meta.dirname, 'tensors.py'), gguf], {
      maxBuffer: 2 ** 24,
    });
    const expected: Record<string, string> = JSON.parse(stdout);
    const { weights } = await readCheckpoint(gguf);
    expect(Object.keys(expected)).toHaveLength(weights.size);
    // Rows of these lie in another order in the file.
    for (const [name, values] of weights)
      if (!/[qk]_proj/.test(name))
        expect([name, createHash('sha256').update(values).digest('hex')]).toEqual([
          name,
          expected[ggufNames(name, llama)[0] as string],
        ]);
  });

  it('learns in five steps, also when it is killed, and replies the same in llama.cpp', {
    timeout: 1_500_000,
  }, async ({ skip }) => {
    const [gguf, packages] = [await publishedGguf(what), await llamaCpp(what)];
    if (gguf === null || packages === null) return skip();
    const folder = join(await temporaryFolder(), 'run');
    const flags = [
      '--checkpoint',
      gguf,
      '--context',
      '512',
      '--seed',
      '1',
      '--steps',
      '5',
      // So few steps have to be large ones.
      '--learning-rate',
      '0.001',
      '--run-directory',
      folder,
    ];

    const doctor = await run(
      process.execPath,
      [
        ...[...fromSource, 'src/cli/main.ts', 'doctor', '--json', '--checkpoint', gguf, '--context', '512'],
        ...['--rollouts', '48', '--sampled', '24', '--sequence', '70'],
      ],
      { cwd: root },
    );
    const [estimate] = JSON.parse(doctor.stdout).models;

    const killed = startRecipe(flags);
    await expect
      .poll(() => killed.lines.filter((line) => line.includes('"type":"step"')).length, {
        timeout: 400_000,
        interval: 200,
      })
      .toBeGreaterThanOrEqual(2);
    killed.kill('SIGKILL');
    await ended(killed);
    const resumed = startRecipe([...flags, '--resume']);
    let memory = 0;
    const watch = setInterval(() => {
      readFile(`/proc/${resumed.pid}/status`, 'utf8').then(
        (status) => {
          memory = Math.max(memory, 1024 * Number(/VmHWM:\s*(\d+)/.exec(status)?.[1] ?? 0));
        },
        () => undefined,
      );
    }, 500);
    const status = await ended(resumed);
    clearInterval(watch);
    expect(status).toBe(0);
    const summary = JSON.parse(resumed.lines.at(-1) ?? '');
    expect(summary).toMatchObject({ type: 'summary', reason: 'finished', steps: 5 });
    const { before, after } = summary.evaluation;
    expect(after.success).toBeGreaterThanOrEqual(before.success + 0.2);
    const steps = [...killed.lines, ...resumed.lines].flatMap((line) =>
      line.includes('"type":"step"') ? [JSON.parse(line)] : [],
    );
    for (const { logprobDifference } of steps) expect(logprobDifference ?? 0).toBeLessThan(1e-4);

    // What doctor has said, beside what the run took.
    // A group without a signal is not trained on, which makes a step shorter.
    const whole = steps.filter(({ groups, groupsWithSignal }) => groups === groupsWithSignal);
    const seconds = whole.map((step) => step.seconds).toSorted((a, b) => a - b)[whole.length >> 1];
    if (memory > 0) {
      expect(estimate.memory.totalBytes / memory).toBeGreaterThan(1 / 1.5);
      expect(estimate.memory.totalBytes / memory).toBeLessThan(1.5);
    }
    expect(estimate.stepSeconds.total / seconds).toBeGreaterThan(1 / timeFactor);
    expect(estimate.stepSeconds.total / seconds).toBeLessThan(timeFactor);

    const own = await served(gguf, join(folder, 'service'));
    const base = await asked(own, 'SmolLM2-135M-Instruct.Q4_1');
    const trained = await asked(own, 'local/extract/seed-1');
    const exported = async (...more: string[]) => {
      const to = join(await temporaryFolder(), 'out');
      const program = [
        ...fromSource,
        'src/cli/main.ts',
        'export',
        'extract/seed-1',
        '--out',
        to,
        '--checkpoint',
        gguf,
        ...more,
      ];
      const { url, apiKey } = own.service;
      const env = { ...process.env, MARTINGALE_BASE_URL: url, MARTINGALE_API_KEY: apiKey };
      const { stdout } = await run(process.execPath, program, { cwd: root, env });
      expect(stdout).toContain(
        'A model does not learn what was forced: ask for it again, with response_format',
      );
      const [file = ''] = (await readdir(to)).filter((name) => name.endsWith('.gguf'));
      return [to, join(to, file)] as const;
    };

    const published = await inLlamaCpp(packages, [gguf], base);
    expect(published.map(({ tokens }) => tokens)).toEqual(base.map(({ tokens }) => tokens));
    // Where weights are quantized, it rounds the states to 8 bits too, so that other replies are as good.
    for (const [type, least] of [
      ['f16', 6],
      ['q8_0', 1],
    ] as const) {
      const [, file] = await exported('--to', 'gguf', '--type', type);
      const found = await inLlamaCpp(packages, [file], trained);
      expect(found.map(({ tokens }) => tokens)).toEqual(trained.map(({ tokens }) => tokens));
      expectAlike(trained, found, least);
    }
    const [, adapter] = await exported('--to', 'gguf', '--adapter');
    const found = await inLlamaCpp(packages, [gguf, adapter], trained);
    expect(found.filter(({ reply }, index) => reply !== published[index]?.reply).length).toBeGreaterThan(0);

    // A folder with the adapter merged in is as good a checkpoint as the file was.
    const [merged] = await exported('--merged');
    const again = await asked(await served(merged, await temporaryFolder()), 'out');
    expectAlike(trained, again, 6);
  });
});
