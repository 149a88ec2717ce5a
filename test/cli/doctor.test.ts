import { join } from 'node:path';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { MachineReport, ModelReport } from '../../src/cli/doctor/report.ts';
import { checkSurroundings } from '../../src/cli/doctor/surroundings.ts';
import { startService } from '../../src/service/index.ts';
import { generateCheckpoint } from '../engines/embedded/checkpoint/generated.ts';
import { command } from '../support/command.ts';
import { sharedFolder } from '../support/files.ts';
import { startServer, unusedUrl } from '../support/http-server.ts';
import { baseModel, ScriptedEngine } from '../support/scripted-engine.ts';

const parent = sharedFolder();
let folder: string;

beforeAll(async () => {
  folder = await generateCheckpoint(parent, 'qwen3');
});

/** `martingale doctor`, to its end. */
async function doctor(...flags: string[]) {
  const { stdout, code } = await command(['doctor', '--threads', '1', ...flags]);
  return { output: stdout, status: code };
}

const sizes = ['--rollouts', '8', '--sampled', '20', '--sequence', '50'];

describe('martingale doctor', () => {
  it('says what a checkpoint needs, how fast it is here, and how long a step takes', async () => {
    const own = ['--checkpoint', folder, '--lora-rank', '4', '--context', '256', '--batch', '3', ...sizes];
    const { output, status } = await doctor('--json', ...own);
    expect(status).toBe(0);
    const report: { machine: MachineReport; models: ModelReport[] } = JSON.parse(output);
    expect(report.machine).toMatchObject({ node: process.versions.node, threads: 1, selfTest: 'passed' });
    const [model] = report.models as [ModelReport];
    // 736 x 32 of the embedding, two layers of 9 matrices and norms, and the last norm.
    const perLayer = 32 * 32 * 2 + 16 * 32 * 2 + 3 * 48 * 32 + 2 * 32 + 2 * 8;
    const parameters = 736 * 32 + 2 * perLayer + 32;
    expect(model).toMatchObject({
      id: 'qwen3-generated',
      parameters,
      contextLength: 256,
      found: {
        family: 'qwen3',
        folder,
        layers: 2,
        chat: 'its own template, tool calls <tool_call>, reasoning in <think>',
      },
      memory: {
        weightBytes: 4 * parameters,
        packedBytes: 4 * parameters,
        // Keys and values of 2 layers, 2 heads of width 8, 50 positions and 3 sequences.
        keyValueBytes: 4 * 2 * 2 * 2 * 8 * 50 * 3,
        trainedTogether: 20,
        // Values, gradient and two moments of A and B: rank 4, beside the inputs and outputs of seven matrices.
        trainedBytes: 4 * 4 * 2 * 4 * (2 * (32 + 32) + 2 * (32 + 16) + 3 * (32 + 48)),
      },
      refusals: [],
    });
    const { rates, stepSeconds } = model;
    if (!rates || !stepSeconds || rates.training === null) throw new Error('nothing was measured');
    const {
      totalBytes,
      batch: _,
      trainedTogether: __,
      ...parts
    } = model.memory ?? { totalBytes: 0, batch: 0, trainedTogether: 0 };
    expect(totalBytes).toBe(Object.values(parts).reduce((sum: number, bytes) => sum + (bytes ?? 0), 0));
    expect(stepSeconds.sampling).toBeCloseTo((8 * 20) / rates.allReplies, 6);
    // Groups of 8, so one prompt.
    expect(stepSeconds.prompts).toBeCloseTo(30 / rates.prompt, 6);
    expect(stepSeconds.training).toBeCloseTo((8 * 50) / rates.training, 6);
    expect(rates.oneReply).toBeGreaterThan(0);
  });

  it('says which limits would refuse a step, and exits with 1', async () => {
    const own = ['--checkpoint', folder, '--context', '256', '--training-memory', '0.001'];
    const { output, status } = await doctor(...own);
    expect(output).toMatch(/refused +A sequence of 400 tokens exceeds the context of 256/);
    expect(output).toMatch(
      /refused +Training a sequence of 400 tokens needs \d\.\d+ GB .* --training-memory/,
    );
    expect(output).toMatch(/speed: eight replies +\S+ tokens\/s together/);
    expect(status).toBe(1);
  });

  it('checks the machine with the tiny model when there is no checkpoint', async () => {
    const { output, status } = await doctor(...sizes);
    expect(output).toMatch(/runtime +onnxruntime-\w+\n +self-test +passed/);
    expect(output).toMatch(/martingale-tiny\n/);
    expect(output).toMatch(
      /a training step +about [\d.]+ (s|min) for 8 rollouts in groups of 8, 20 of 50 tokens sampled/,
    );
    expect(status).toBe(0);
  });

  it.each([
    [['--checkpoint', 'nowhere'], /nowhere.*config\.json does not exist/s],
    [['--checkpoint', 'hf:qwen'], /hf:qwen\. Pass hf:owner\/name/],
    [['--sampled', '400'], /--sampled is 400\. It must be less than --sequence \(400\)/],
    [['--rollouts', '0'], /--rollouts.*whole number/],
  ])('refuses %j by name', async (flags, message) => {
    const { stdout, stderr, code } = await command(['doctor', ...flags]);
    expect(stderr).toMatch(message);
    expect(stdout).toBe('');
    expect(code).toBe(1);
  });
});

describe('martingale doctor, around the machine', () => {
  type Checks = { name: string; isWell: boolean; text: string }[];
  const base = { data: parent, port: 0, env: {} };
  const namesOf = (checks: Checks) => checks.map(({ name, isWell }) => `${name} ${isWell}`);

  it('checks disk, port, and the service with its key, clock and model', async () => {
    const service = await startService({ engine: new ScriptedEngine(), dataFolder: join(parent, 'data') });
    onTestFinished(() => service.close());
    const { url: baseUrl, apiKey } = service;
    const model = baseModel.id;
    const all = await checkSurroundings({ ...base, baseUrl, apiKey, model });
    expect(namesOf(all)).toEqual([
      'disk true',
      'port true',
      'service true',
      'clock true',
      'model true',
      'tracing true',
    ]);
    const wrong = await checkSurroundings({ ...base, baseUrl, apiKey: 'wrong', model });
    expect(wrong[2]).toMatchObject({ name: 'service', isWell: false, text: expect.stringContaining('401') });
    const used = await checkSurroundings({ ...base, port: Number(new URL(baseUrl).port) });
    expect(used[1]).toMatchObject({ isWell: true, text: expect.stringContaining('is in use') });
  });

  it('sends an empty batch to the collector of traces', async () => {
    const paths: string[] = [];
    const { url, close } = await startServer(({ url: path = '' }, response) => {
      paths.push(path);
      response.writeHead(path.startsWith('/good') ? 200 : 404).end();
    });
    onTestFinished(close);
    const tracingOf = async (env: Record<string, string>) =>
      (await checkSurroundings({ ...base, env })).at(-1);
    expect(await tracingOf({ OTEL_EXPORTER_OTLP_ENDPOINT: `${url}/good/` })).toMatchObject({ isWell: true });
    expect(await tracingOf({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${url}/bad` })).toMatchObject({
      isWell: false,
    });
    expect(paths).toEqual(['/good/v1/traces', '/bad']);
    const gone = await tracingOf({ OTEL_EXPORTER_OTLP_ENDPOINT: await unusedUrl() });
    expect(gone).toMatchObject({ isWell: false, text: expect.stringContaining('cannot be reached') });
  });
});
