import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createEmbeddedEngine } from '../../src/engines/embedded/index.ts';
import type { Engine } from '../../src/engines/engine.ts';
import { type RunningService, startService } from '../../src/service/index.ts';
import { root, runProgram } from '../support/programs.ts';
import { martingalePaths, typeCheck } from '../support/type-check.ts';
import { startOtlpReceiver } from '../telemetry/otlp-receiver.ts';
import { snippetsOf, textOf, typeScriptSnippets } from './documents.ts';

/** In the repository, so that packages and paths resolve as they do for a reader. */
let folder: string;
let engine: Engine;
let service: RunningService;
let env: Record<string, string>;

beforeAll(async () => {
  await mkdir(join(root, '.martingale'), { recursive: true });
  folder = await mkdtemp(join(root, '.martingale/readme-'));
  engine = await createEmbeddedEngine({ threads: 1 });
  service = await startService({ engine, dataFolder: join(folder, 'service') });
  env = { MARTINGALE_BASE_URL: service.url, MARTINGALE_API_KEY: service.apiKey };
});

afterAll(async () => {
  await service.close();
  await engine.close();
  await rm(folder, { recursive: true, force: true });
});

/** The name that a snippet is to be saved under; another where it has none. */
const fileOf = (note: string, other: string) => (note.endsWith('.ts') ? note : other);

/** The programs of a document that run as they are. */
const programs = async (document: string) =>
  (await snippetsOf(document)).filter(({ note }) => note === 'run').map(({ code }) => code);

/** Writes the snippets that have a file name of their own, which others import. */
async function writeFiles(document: string) {
  for (const { note, code } of await snippetsOf(document))
    if (fileOf(note, '') !== '') await writeFile(join(folder, note), code);
}

describe('README and docs', () => {
  it('have TypeScript that type-checks', async () => {
    const snippets = await typeScriptSnippets();
    expect(snippets.length).toBeGreaterThanOrEqual(25);
    const files = snippets.map(({ note, code }, index) => ({
      name: fileOf(note, `snippet-${index}.ts`),
      code,
    }));
    for (const { name, code } of files) await writeFile(join(folder, name), code);
    const project = {
      extends: '../../tsconfig.json',
      compilerOptions: { paths: await martingalePaths() },
      include: [],
      files: files.map(({ name }) => name),
    };
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(project));
    expect(await typeCheck(folder)).toBe('');
  });

  it('have a first environment of some 30 lines that trains', async () => {
    const [code = '', ...others] = await programs('README.md');
    expect(others).toHaveLength(0);
    expect(code.split('\n').length).toBeLessThanOrEqual(40);
    expect(code).toContain('steps: 40');
    const file = join(folder, 'first.ts');
    const told =
      "onEvent: (event) => event.type === 'step' && console.log(event.step, event.reward.toFixed(2))";
    await writeFile(file, code.replace('steps: 40', `steps: 2, ${told}`));
    const output = await runProgram(file, { env });
    expect(output).toMatch(/^0 [01]\.\d\d\n1 [01]\.\d\d\n/);
    await rm(/The record is in (.*)/.exec(output)?.[1] ?? '', { recursive: true });
  });

  it('have a recipe with a warm start that accepts the flags of recipes', {
    tags: ['long'],
  }, async () => {
    const found = (await typeScriptSnippets()).filter(({ code }) => code.includes('runRecipe('));
    expect(found).toHaveLength(1);
    const file = join(folder, 'lights.ts');
    await writeFile(file, found[0]?.code ?? '');
    const elsewhere = ['--base-url', service.url, '--api-key', service.apiKey];
    const args = [...elsewhere, '--json', '--steps', '2', '--run-directory', join(folder, 'lights')];
    const lines = (await runProgram(file, { args })).trimEnd().split('\n');
    const events = lines.map((line) => JSON.parse(line));
    const told = events.map(({ type, phase }) => (type === 'phase' ? phase : type));
    expect(told.filter((what, index) => what !== 'alarm' && what !== told[index - 1])).toEqual([
      ...['run_started', 'warm start', 'evaluation before', 'evaluated', 'step', 'evaluation after'],
      ...['evaluated', 'run_ended', 'summary'],
    ]);
    expect(events.at(-1)).toMatchObject({ reason: 'finished', steps: 2 });
  });

  it('have a client of at most 25 lines that trains, samples and is refused', async () => {
    const [code = '', ...others] = await programs('docs/service.md');
    expect(others).toHaveLength(1);
    expect(code.trim().split('\n').length).toBeLessThanOrEqual(25);
    const file = join(folder, 'client.ts');
    await writeFile(file, code);
    const output = await runProgram(file, { env });
    for (const type of ['training_started', 'gradient_step', 'training_ended'])
      expect(output).toContain(type);
    expect(output).toMatch(/^0 undefined\n1 \d/m);
    expect(output).toMatch(/\[ 'body', 'temperature' \] .*: 422: /);
  });

  it('have a logits processor that a program registers', async () => {
    await writeFiles('docs/service.md');
    const [, code = ''] = await programs('docs/service.md');
    const file = join(folder, 'processor.ts');
    await writeFile(file, code.replace("'.martingale'", JSON.stringify(join(folder, 'processor'))));
    expect(await runProgram(file)).toContain("qualname: 'my.NoEcho'");
  });

  it('have an environment that trains in worker threads', async () => {
    await writeFiles('docs/guide.md');
    const [code = '', ...others] = await programs('docs/guide.md');
    expect(others).toHaveLength(0);
    const file = join(folder, 'threads.ts');
    const runDirectory = join(folder, 'threads');
    await writeFile(
      file,
      code.replace('  executor,', `  executor, runDirectory: ${JSON.stringify(runDirectory)},`),
    );
    expect(await runProgram(file, { env })).toBe('0 12 completed\n1 12 completed\n');
  });

  it('list the endpoints of the service', async () => {
    const text = await textOf('docs/service.md');
    const told = [...text.matchAll(/^\| (`.*?`) \|/gm)].flatMap(([, cell = '']) => {
      const path = /\/v1\S*(?=`)/.exec(cell)?.[0] ?? '';
      return [...cell.matchAll(/GET|POST|DELETE/g)].map(([method]) => `${method} ${path}`);
    });
    const answer = await fetch(`${service.url}/v1/openapi.json`, {
      headers: { authorization: `Bearer ${service.apiKey}` },
    });
    const { paths } = z
      .object({ paths: z.record(z.string(), z.record(z.string(), z.unknown())) })
      .parse(await answer.json());
    const had = Object.entries(paths)
      .filter(([path]) => !path.endsWith('/'))
      .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`));
    expect(told.sort()).toEqual(had.sort());
  });
});

describe('examples', () => {
  it('train with service, engine and loop in one process', async () => {
    expect(await runProgram('examples/one-process.ts', { args: ['1'] })).toMatch(/^0 \S+\ngreedy success/);
  });

  it('improve a prompt, which is better on scenarios that were not seen, and say what it cost', async () => {
    const output = await runProgram('examples/better-prompt.ts', { args: [join(folder, 'prompt')] });
    expect(output).toMatch(/^password: accounts$/m);
    expect(output).toMatch(/^success on held-out tickets 0\.3+ -> 1$/m);
    expect(output).toMatch(/^\d+ rollouts, cost 0\.\d{4}, in /m);
  });

  it('train an agent that was built before its model', async () => {
    const runs = join(folder, 'runs');
    const output = await runProgram('examples/module-level-agent.ts', { args: ['1', runs], env });
    expect(output).toMatch(/^0 \S+\n$/);
  });

  it('train with the tools of an MCP server', async () => {
    const output = await runProgram('examples/mcp-tools.ts', { args: ['1', join(folder, 'mcp')], env });
    expect(output).toMatch(/^0 \S+\n$/);
  });

  it('send spans and metrics to a collector', async () => {
    const collector = await startOtlpReceiver();
    await runProgram('examples/opentelemetry.ts', {
      args: ['1', join(folder, 'traced')],
      env: { ...env, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url },
    });
    await collector.close();
    const names = new Set(collector.spans.map(({ name }) => name));
    for (const name of ['run', 'step', 'group', 'rollout', 'reward', 'job']) expect(names).toContain(name);
    expect([...collector.metrics.keys()]).toContain('gen_ai.client.token.usage');
  });
});
