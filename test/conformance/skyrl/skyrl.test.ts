import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Client, createClient, evaluate, openModel, sft, train } from '../../../src/index.ts';
import { decodeTar } from '../../../src/util/tar.ts';
import { readJsonLines, sharedFolder } from '../../support/files.ts';
import { freePort } from '../../support/free-port.ts';
import { createPythonEnvironment } from '../python-environment.ts';
import { lampDemonstrations, lampRequest, lampRun, letters, newestReward, shareOf } from './environments.ts';
import { type Served, type ServeSettings, serve } from './serve.ts';
import { type Skyrl, type SkyrlSettings, startSkyrl } from './skyrl-server.ts';
import { generateSmallModel } from './small-model.ts';

const requirements = readFileSync(join(import.meta.dirname, 'requirements.txt'), 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'));

const baseModel = 'qwen3-generated';
const apiKey = 'skyrl';

describe('SkyRL with its JAX backend', { tags: ['long'] }, () => {
  const folder = sharedFolder();
  let missing: string | null = null;
  let settings: SkyrlSettings;
  let server: Skyrl;
  let serveSettings: ServeSettings;
  let service: Served;
  let client: Client;
  let baseUrl: string;

  const restartService = async () => {
    await service.kill();
    service = await serve(serveSettings);
  };

  beforeAll(async () => {
    let python: string;
    try {
      ({ python } = await createPythonEnvironment({ requirements, minor: 12, pipArguments: ['--no-deps'] }));
    } catch (error) {
      missing = `The tests against SkyRL did NOT run: ${error}`;
      console.error(`\n!!! ${missing}\n`);
      return;
    }
    const model = await generateSmallModel(folder);
    settings = { python, model, data: `${folder}/server`, port: await freePort() };
    server = await startSkyrl(settings);
    serveSettings = {
      tinkerUrl: server.url,
      checkpoint: model,
      data: `${folder}/data`,
      port: await freePort(),
      apiKey,
    };
    service = await serve(serveSettings);
    baseUrl = service.url;
    client = createClient({ baseUrl, apiKey });
  }, 600_000);
  beforeEach(({ skip }) => skip(missing !== null, missing ?? ''));
  afterAll(async () => {
    await client?.close();
    await service?.kill();
    await server?.kill();
  }, 60_000);

  it('trains a model to write some letters, from chance, and goes on when the server was killed', async () => {
    const rewards: number[] = [];
    const divergences: number[] = [];
    let restarted: Promise<void> | undefined;
    await train({
      environment: letters,
      scenarios: ['one', 'two', 'three', 'four'].map((word) => ({ word })),
      client,
      runDirectory: `${folder}/letters`,
      model: { project: 'skyrl', name: 'letters', baseModel },
      config: { learning_rate: 0.003 },
      seed: 1,
      steps: 8,
      keepCheckpoints: 'all',
      groupsPerStep: 4,
      rolloutsPerGroup: 16,
      onEvent: (event) => {
        if (event.type === 'step') {
          rewards.push(event.reward ?? Number.NaN);
          divergences.push(event.klSampler ?? 0);
        }
        if (event.type === 'job' && event.step === 3 && event.status === 'running')
          restarted ??= server.kill().then(async () => {
            server = await startSkyrl(settings);
          });
      },
    });
    await restarted;
    expect(restarted).toBeDefined();
    expect(rewards[0]).toBeLessThan(0.5);
    expect(rewards.at(-1)).toBeGreaterThan(0.9);
    // Squares of the differences between the log-probabilities of trainer and sampler.
    expect(Math.max(...divergences)).toBeLessThan(1e-8);
  });

  it('samples an older checkpoint and the base model beside the newest, each from its own weights', async () => {
    const shares = await Promise.all(
      [baseModel, 'local/skyrl/letters:step1', 'local/skyrl/letters'].map(async (model) => {
        const messages = [{ role: 'user' as const, content: 'one' }];
        const { choices } = await client.chat.completions.create({
          ...{ model, messages, max_tokens: 8, n: 16, seed: 3 },
        });
        const counts = choices.map(({ message }) => shareOf(String(message.content)));
        return counts.reduce((sum, count) => sum + count) / counts.length;
      }),
    );
    const [untrained = 1, older = 1, newest = 0] = shares;
    expect(newest).toBeGreaterThan(0.9);
    expect(untrained).toBeLessThan(0.6);
    expect(older).toBeLessThan(0.8);
  });

  /** Replies with their tokens and log-probabilities: the same as long as the weights are. */
  async function samplesOf(model: string) {
    const { choices } = await client.chat.completions.create({
      ...{ ...lampRequest('x'), model, n: 4, seed: 3 },
      ...{ logprobs: true, return_token_ids: true },
    });
    return choices.map(({ token_ids: tokens, logprobs }) => ({
      tokens,
      logprobs: logprobs?.content?.map(({ logprob }) => Number(logprob.toFixed(3))),
    }));
  }

  /** The conversations' checkpoint is step 1. */
  const lampModel = { project: 'skyrl', name: 'lamp', baseModel };
  const lampName = 'local/skyrl/lamp';

  it('learns from conversations how a tool is called', async () => {
    const losses: number[] = [];
    const trained = await sft({
      model: await openModel({ client, ...lampModel }),
      examples: lampDemonstrations(64),
      batchSize: 4,
      learningRate: Array.from({ length: 64 }, (_, step) => 0.03 * (1 - (0.9 * step) / 64)),
      onEvent: (event) => {
        if (event.type === 'phase' && event.metrics.loss !== undefined) losses.push(event.metrics.loss);
      },
    });
    expect(trained).toMatchObject({ examples: 256, gradientSteps: 64 });
    expect(trained.model.name).toBe(`${lampName}:step1`);
    expect(losses[0]).toBeGreaterThan(5);
    expect(losses.at(-1)).toBeLessThan(0.1);
    const { choices } = await client.chat.completions.create({
      ...{ ...lampRequest('x'), model: trained.model.name, n: 16, seed: 3 },
    });
    const calls = choices.flatMap(({ message }) => message.tool_calls ?? []);
    expect(calls.length).toBeGreaterThan(10);
    expect(new Set(calls.map((call) => 'function' in call && call.function.name))).toEqual(
      new Set(['a', 'b']),
    );
  });

  const lampDirectory = `${folder}/lamp`;
  const stepsOf = (runDirectory: string) => readJsonLines(join(runDirectory, 'metrics.jsonl'));

  /** Trains on the lamps in a process of its own; `onJob` is called when the job of a step runs. Returns its last line. */
  async function runLampProgram(options: object, onJob: (step: number) => void = () => undefined) {
    const program = join(import.meta.dirname, 'lamp-program.ts');
    const given = { baseUrl, apiKey, model: lampModel, runDirectory: lampDirectory, ...options };
    const child = spawn(process.execPath, [program, JSON.stringify(given)], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const [ended, errors] = [once(child, 'exit'), text(child.stderr)];
    let last: { jobOfStep?: number; reason?: string; finalStep?: number } = {};
    for await (const line of createInterface(child.stdout)) {
      last = JSON.parse(line);
      if (last.jobOfStep !== undefined) onJob(last.jobOfStep);
    }
    const [code, signal] = await ended;
    if (code !== 0 && signal === null) throw new Error(await errors);
    return { last, signal };
  }

  it('learns which tool to call, though training program and service are killed', async () => {
    const killed = await runLampProgram({ dieInJobOfStep: 3 });
    expect(killed).toEqual({ last: { jobOfStep: 3 }, signal: 'SIGKILL' });
    await restartService();
    let restarted: Promise<void> | undefined;
    const { last } = await runLampProgram({ resume: true }, (step) => {
      if (step === 8) restarted ??= restartService();
    });
    await restarted;
    expect(restarted).toBeDefined();
    const reports = await stepsOf(lampDirectory);
    expect(last).toEqual({ reason: 'early_stop', finalStep: reports.length + 1 });
    expect(reports.map(({ step }) => step)).toEqual([...reports.keys()]);
    expect(reports[0].reward).toBeLessThan(0.65);
    expect(newestReward(reports)).toBeGreaterThan(0.9);
    expect(Math.max(...reports.map(({ logprobDifference }) => logprobDifference))).toBeLessThan(1e-4);
    const { id } = await openModel({ client, ...lampModel });
    const kept: number[] = [];
    for await (const { step } of client.models.checkpoints.list(String(id))) kept.push(step);
    expect(kept).toEqual(Array.from({ length: reports.length + 2 }, (_, step) => step));
  });

  it('trains a fork like its origin, while an older checkpoint is evaluated', async () => {
    const older = (await openModel({ client, ...lampModel })).at(5);
    const score = async () => {
      const { perScenario } = await evaluate({
        environment: lampRun.environment,
        scenarios: lampRun.scenarios,
        model: older,
        rolloutsPerScenario: 4,
        temperature: 'agent',
        seed: 5,
      });
      return [perScenario.map(({ reward }) => reward), await samplesOf(older.name)];
    };
    const before = await score();
    const fork = await client.models.fork(String(older.id), { step: 1, name: 'fork' });
    expect(fork.forked_from).toMatchObject({ model_id: older.id, step: 1 });
    const steps = 5;
    let isTraining = true;
    const training = train({
      ...lampRun,
      client,
      model: { ...lampModel, name: 'fork' },
      runDirectory: `${folder}/fork`,
      steps,
    }).finally(() => {
      isTraining = false;
    });
    let scores = 0;
    for (; isTraining; scores++) expect(await score()).toEqual(before);
    await training;
    expect(scores).toBeGreaterThan(3);
    const rewards = (reports: { reward: number }[]) => reports.slice(0, steps).map(({ reward }) => reward);
    expect(rewards(await stepsOf(`${folder}/fork`))).toEqual(rewards(await stepsOf(lampDirectory)));
    expect(await samplesOf(`local/skyrl/fork:step${steps}`)).toEqual(
      await samplesOf(`${lampName}:step${steps + 1}`),
    );
  });

  it("downloads a checkpoint's adapter as PEFT's two files, and samples it as before", async () => {
    const fork = await openModel({ client, ...lampModel, name: 'fork' });
    const before = await samplesOf('local/skyrl/fork:step2');
    const { fileName, stream } = await client.models.checkpoints.download(String(fork.id), 2);
    expect(fileName).toBe('fork-step2.tar');
    const files = new Map<string, Buffer>();
    for await (const { path, content } of decodeTar(stream))
      files.set(path, await buffer(Readable.from(content)));
    expect([...files.keys()]).toEqual(['adapter/adapter_config.json', 'adapter/adapter_model.safetensors']);
    const config = JSON.parse(String(files.get('adapter/adapter_config.json')));
    expect(config).toMatchObject({ peft_type: 'LORA', base_model_name_or_path: baseModel });
    const weights = files.get('adapter/adapter_model.safetensors') ?? Buffer.alloc(8);
    const header = JSON.parse(weights.toString('utf8', 8, 8 + Number(weights.readBigUInt64LE())));
    expect(Object.keys(header).filter((name) => name.includes('lora_A')).length).toBeGreaterThan(3);
    expect(await samplesOf('local/skyrl/fork:step2')).toEqual(before);
  });

  it('samples no checkpoint and no model that was deleted, and the others as before', async () => {
    const { id } = await openModel({ client, ...lampModel });
    const others = () => Promise.all(['local/skyrl/fork:step0', 'local/skyrl/fork'].map(samplesOf));
    const [before, newest] = await Promise.all([others(), samplesOf(lampName)]);
    const isMissing = { code: 'not_found' };
    await client.models.checkpoints.delete(String(id), { steps: [1, 5] });
    await expect(samplesOf(`${lampName}:step1`)).rejects.toMatchObject(isMissing);
    await expect(samplesOf(`${lampName}:step5`)).rejects.toMatchObject(isMissing);
    expect(await samplesOf(lampName)).toEqual(newest);
    expect(await others()).toEqual(before);
    await client.models.delete(String(id));
    await expect(samplesOf(lampName)).rejects.toMatchObject(isMissing);
    expect(await others()).toEqual(before);
  });
});
