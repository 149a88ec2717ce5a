import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { generateText } from 'ai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createClient } from '../../src/client/index.ts';
import { readCheckpoint } from '../../src/engines/embedded/checkpoint/read-checkpoint.ts';
import { createEmbeddedEngine } from '../../src/engines/embedded/index.ts';
import { inspectCheckpoint } from '../../src/engines/embedded/open-checkpoint.ts';
import type { Engine } from '../../src/engines/engine.ts';
import { defineEnvironment, openModel, sft, train } from '../../src/index.ts';
import { type RunningService, startService } from '../../src/service/index.ts';
import { generateCheckpoint } from '../engines/embedded/checkpoint/generated.ts';
import { readFixtureTensors } from '../engines/embedded/checkpoint/reference.ts';
import { underFaults } from '../faults/driver/fault.ts';
import { command } from '../support/command.ts';
import { sharedFolder } from '../support/files.ts';
import { fromSource, root } from '../support/programs.ts';

const parent = sharedFolder();
let base: string;
let engine: Engine;
let service: RunningService;

beforeAll(async () => {
  base = await generateCheckpoint(parent, 'qwen3');
  engine = await createEmbeddedEngine({
    threads: 1,
    checkpoints: [
      { folder: base, id: 'generated', lora: { rank: 3, targets: ['q_proj', 'down_proj'] } },
      { folder: base, id: 'whole', train: 'all' },
    ],
  });
  service = await startService({ engine, dataFolder: join(parent, 'data') });
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  const model = await openModel({ client, project: 'shop', name: 'agent', baseModel: 'generated' });
  const messages = [
    { role: 'user' as const, content: 'a' },
    { role: 'assistant' as const, content: 'b' },
  ];
  await sft({ model, examples: [{ messages }], learningRate: 0.05 });
  const whole = await openModel({ client, project: 'shop', name: 'whole', baseModel: 'whole' });
  await sft({ model: whole, examples: [{ messages }], learningRate: 0.01 });
  await train({
    environment: defineEnvironment({
      name: 'choose',
      scenario: z.object({}),
      rollout: async ({ model, signal }) => {
        const { text: chosen } = await generateText({
          model: model.languageModel,
          prompt: 'Choose.',
          providerOptions: { martingale: { structured_outputs: { choice: ['a', 'b', 'c', 'd'] } } },
          abortSignal: signal,
        });
        return chosen;
      },
      rewards: { letter: ({ outcome }) => outcome.charCodeAt(0) / 100 },
    }),
    scenarios: [{}],
    client,
    model: { project: 'shop', name: 'chooser', baseModel: 'generated' },
    ...{ seed: 1, steps: 1, groupsPerStep: 2, rolloutsPerGroup: 8, progress: false },
    runDirectory: join(parent, 'run'),
  });
  await openModel({ client, project: 'shop', name: 'tiny', baseModel: 'martingale-tiny' });
  await openModel({ client, entity: 'other', project: 'shop', name: 'tiny', baseModel: 'martingale-tiny' });
  await client.close();
});

afterAll(async () => {
  await service?.close();
  await engine?.close();
});

/** `martingale export` to a folder, to its end. */
async function run(to: string, flags: readonly string[]) {
  const env = { MARTINGALE_BASE_URL: service.url, MARTINGALE_API_KEY: service.apiKey };
  const { stdout, stderr, code } = await command(['export', '--out', to, ...flags], env);
  return { output: stdout, errors: stderr, status: code };
}

/** The same in a process of its own, whose disk fails. */
async function runUnder(
  { execArgv, env }: { execArgv: readonly string[]; env: NodeJS.ProcessEnv },
  to: string,
  flags: readonly string[],
) {
  const program = [...fromSource, ...execArgv, 'src/cli/main.ts', 'export', '--out', to, ...flags];
  const child = spawn(process.execPath, program, {
    cwd: root,
    env: { ...env, MARTINGALE_BASE_URL: service.url, MARTINGALE_API_KEY: service.apiKey },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const closed = Promise.withResolvers<number | null>();
  child.once('close', closed.resolve);
  const [output, errors, status] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    closed.promise,
  ]);
  return { output, errors, status };
}

const valuesOf = async (file: string) => {
  const tensors = await readFixtureTensors(`file://${file}`);
  return (name: string) => tensors.get(name)?.data as Float32Array;
};

describe('martingale export', () => {
  it("writes the two files of PEFT, and with --merged the base's files with W + B A alpha / rank", async () => {
    const adapter = join(parent, 'adapter');
    const { output, errors, status } = await run(adapter, ['shop/agent', '--checkpoint', base]);
    expect([errors, status]).toEqual(['', 0]);
    expect(output).toContain(`local/shop/agent:step1 is in ${adapter}`);
    expect((await readdir(adapter)).sort()).toEqual(['adapter_config.json', 'adapter_model.safetensors']);
    const config = JSON.parse(await readFile(join(adapter, 'adapter_config.json'), 'utf8'));
    expect(config).toMatchObject({ base_model_name_or_path: base, r: 3, lora_alpha: 6 });

    const merged = join(parent, 'merged');
    // An empty folder may stand there.
    await mkdir(merged);
    expect(await run(merged, ['local/shop/agent:step1', '--merged', '--checkpoint', base])).toMatchObject({
      errors: '0%  of merged\n',
      status: 0,
    });
    expect((await readdir(merged)).sort()).toEqual((await readdir(base)).sort());
    const old = await valuesOf(join(base, 'model.safetensors'));
    const written = await valuesOf(join(merged, 'model.safetensors'));
    const lora = await valuesOf(join(adapter, 'adapter_model.safetensors'));
    const name = 'model.layers.1.mlp.down_proj';
    const [w, changed] = [old(`${name}.weight`), written(`${name}.weight`)];
    const a = lora(`base_model.model.${name}.lora_A.weight`);
    const b = lora(`base_model.model.${name}.lora_B.weight`);
    const inputs = a.length / 3;
    let largest = 0;
    for (let row = 0; row < w.length / inputs; row++)
      for (let column = 0; column < inputs; column++) {
        const index = row * inputs + column;
        let change = 0;
        for (let part = 0; part < 3; part++)
          change += 2 * (b[row * 3 + part] as number) * (a[part * inputs + column] as number);
        largest = Math.max(largest, Math.abs(change));
        expect(changed[index]).toBeCloseTo((w[index] as number) + change, 5);
      }
    expect(largest).toBeGreaterThan(0.01);
    const untouched = 'model.layers.1.self_attn.v_proj.weight';
    expect(written(untouched)).toEqual(old(untouched));
  });

  it('writes a GGUF file and a Modelfile with --to gguf, or the adapter alone', async () => {
    const [whole, part] = [join(parent, 'whole'), join(parent, 'part')];
    const flags = ['shop/chooser', '--to', 'gguf', '--checkpoint', base];
    expect(await run(whole, [...flags, '--chat-template', 'hermes'])).toMatchObject({
      errors: '0%  of whole\n',
      status: 0,
    });
    const file = 'chooser-step1-f16.gguf';
    expect((await readdir(whole)).sort()).toEqual(['Modelfile', file]);
    const modelfile = await readFile(join(whole, 'Modelfile'), 'utf8');
    expect(modelfile).toMatch(
      /^FROM \.\/chooser-step1-f16\.gguf\n# Ollama takes the template .*\nPARAMETER num_ctx 512\n/,
    );
    const written = await inspectCheckpoint({ folder: join(whole, file) });
    expect(written.language.format.template).toContain('Their signatures, one a line');
    // The fixture's vocabulary in 736 rows of 32 float16, and two layers.
    expect((await readFile(join(whole, file))).length).toBeGreaterThan(2 * 736 * 32);

    const { output } = await run(part, [...flags, '--adapter']);
    expect(output).toMatch(/local\/shop\/chooser:step1, as an adapter of .*, is in .*part\n/);
    expect(await readFile(join(part, 'Modelfile'), 'utf8')).toMatch(
      new RegExp(`^FROM ${base}\nADAPTER \\./chooser-step1-adapter\\.gguf\n`),
    );
  });

  it('writes all trained weights as one file, as a whole folder, or as GGUF', async () => {
    const [file, merged, gguf] = ['weights', 'replaced', 'packed'].map((name) => join(parent, name)) as [
      string,
      string,
      string,
    ];
    expect(await run(file, ['shop/whole'])).toMatchObject({ errors: '', status: 0 });
    expect(await readdir(file)).toEqual(['whole-step1.safetensors']);
    const trained = await valuesOf(join(file, 'whole-step1.safetensors'));
    const old = await valuesOf(join(base, 'model.safetensors'));
    const flags = ['shop/whole', '--checkpoint', base];
    expect(await run(merged, [...flags, '--merged'])).toMatchObject({ status: 0 });
    expect((await readdir(merged)).sort()).toEqual((await readdir(base)).sort());
    const written = await valuesOf(join(merged, 'model.safetensors'));
    for (const name of [
      'model.embed_tokens.weight',
      'model.norm.weight',
      'model.layers.1.mlp.up_proj.weight',
    ]) {
      expect(trained(name)).not.toEqual(old(name));
      expect(written(name)).toEqual(trained(name));
    }
    expect((await run(gguf, [...flags, '--to', 'gguf'])).status).toBe(0);
    const { source } = await inspectCheckpoint({ folder: join(gguf, 'whole-step1-f16.gguf') });
    const { weights } = await readCheckpoint(source);
    const norm = trained('model.layers.0.input_layernorm.weight');
    expect(weights.get('model.layers.0.input_layernorm.weight')).toEqual(norm);
    const up = weights.get('model.layers.1.mlp.up_proj.weight') ?? [];
    for (const [index, value] of trained('model.layers.1.mlp.up_proj.weight').entries())
      expect(up[index]).toBeCloseTo(value, 2);
    for (const [more, message] of [
      [[], /training changed all weights of .*: leave out --checkpoint, or add --merged or --to gguf/],
      [
        ['--to', 'gguf', '--adapter'],
        /training changed all weights of .*, so it has no adapter: leave out --adapter/,
      ],
    ] as const)
      expect(await run(join(parent, 'none'), [...flags, ...more])).toMatchObject({
        errors: expect.stringMatching(message),
        status: 1,
      });
  });

  it('says of a model that was trained under a form that the form was not learned', async () => {
    const hint =
      /A model does not learn what was forced: ask for it again, with response_format .* format \(Ollama\)\.\n$/;
    const unknown = await run(join(parent, 'formed'), ['shop/chooser']);
    expect(unknown.output).toMatch(hint);
    expect(unknown.output).toContain('under a schema, another grammar or a tool choice.');
    const known = await run(join(parent, 'named'), ['shop/chooser', '--in', parent]);
    expect(known.output).toMatch(hint);
    expect(known.output).toContain(
      'Its replies were sampled under structured_outputs {"choice":["a","b","c","d"]}\n',
    );
    expect((await run(join(parent, 'free'), ['shop/agent'])).output).not.toMatch(hint);
  });

  it('writes the single file of a tiny model', async () => {
    const folder = join(parent, 'tiny');
    expect(await run(folder, ['local/shop/tiny:step0'])).toMatchObject({ errors: '', status: 0 });
    const [file = '', ...others] = await readdir(folder);
    expect([file.endsWith('.safetensors'), others]).toEqual([true, []]);
  });

  it('leaves nothing, and says why: wrong names, wrong flags, a full target, another base, a full disk', async () => {
    const other = await generateCheckpoint(parent, 'qwen2');
    const changed = await generateCheckpoint(join(parent, 'changed'), 'qwen3');
    const weights = await readFile(join(changed, 'model.safetensors'));
    weights.writeFloatLE(9, weights.length - 4 * 32);
    await writeFile(join(changed, 'model.safetensors'), weights);
    const target = join(parent, 'none');
    const merged = ['shop/agent', '--merged', '--checkpoint'];
    const cases: [string[], RegExp][] = [
      [['shop/nobody'], /no model shop\/nobody.*\[model_not_found\]/],
      [['shop/tiny'], /shop\/tiny may be (local|other)\/shop\/tiny or /],
      [['shop/agent:step7'], /has no step 7, but steps? 0/],
      [['shop/agent', '--merged'], /--merged needs --checkpoint/],
      [['shop/agent', '--to', 'gguf'], /--to gguf needs --checkpoint/],
      [
        [...merged, base, '--to', 'gguf'],
        /--merged writes a folder, --to gguf a file: leave one of them out/,
      ],
      [['shop/agent', '--type', 'q8_0'], /--type is for --to gguf/],
      [['shop/agent', '--step', '1'], /--step is for runs/],
      [['shop/agent', '--adapter'], /--adapter is for --to gguf/],
      [
        ['shop/agent', '--chat-template', 'hermes'],
        /--chat-template is for --merged and for the whole model/,
      ],
      [[...merged, base, '--chat-template', './none.jinja'], /none\.jinja cannot be read: .*one of hermes/],
      [[...merged, other], /whose weights differ from .*qwen2-generated.*--checkpoint.*\[wrong_base\]/],
      [[...merged, changed], /whose weights differ from .*changed.*\[wrong_base\]/],
      [
        ['local/shop/tiny', '--merged', '--checkpoint', base],
        /local\/shop\/tiny:step0 .*martingale-tiny.*--merged/,
      ],
    ];
    for (const [flags, message] of cases) {
      const { errors, status } = await run(target, flags);
      expect([errors, status]).toEqual([expect.stringMatching(message), 1]);
      expect(existsSync(target)).toBe(false);
    }
    expect(await run(parent, ['shop/agent'])).toMatchObject({
      errors: expect.stringContaining('name a new or an empty folder'),
      status: 1,
    });
    const disk = join(parent, 'disk');
    await mkdir(disk);
    const full = underFaults({ root: disk, mode: 'ENOSPC' });
    for (const flags of [['shop/agent'], [...merged, base]]) {
      const { errors, status } = await runUnder(full, join(disk, 'to'), flags);
      expect([errors, status]).toEqual([
        expect.stringMatching(/disk\/to could not be written.*Free disk space/),
        1,
      ]);
      expect(await readdir(disk)).toEqual([]);
    }
  });
});
