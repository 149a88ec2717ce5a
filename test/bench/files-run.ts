// Which files of src a small chat request and a training step run through: those of which a function is called on the
// main thread once the service is warm. `npx tsx test/bench/files-run.ts` prints both lists.

import { mkdtemp, rm } from 'node:fs/promises';
import { Session } from 'node:inspector/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { generateText } from 'ai';
import { defineEnvironment, train } from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import { startService } from 'martingale/service';
import { z } from 'zod';

const source = new URL('../../src/', import.meta.url);
const baseModel = 'martingale-tiny';

/** Finds the files whose functions were called since the last `take`. */
class CalledFiles {
  readonly #session = new Session();

  async start(): Promise<void> {
    this.#session.connect();
    await this.#session.post('Profiler.enable');
    await this.#session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  }

  /** Files of src with a function that was called since the last call. */
  async take(): Promise<string[]> {
    const { result } = await this.#session.post('Profiler.takePreciseCoverage');
    return result
      .filter(({ url, functions }) => {
        // The first function is the module itself, which runs when it is loaded.
        const called = functions.some(({ functionName, ranges }) => functionName !== '' && ranges[0]?.count);
        return called && url.startsWith(source.href);
      })
      .map(({ url }) => fileURLToPath(url).slice(fileURLToPath(source).length))
      .sort();
  }

  end(): void {
    this.#session.disconnect();
  }
}

function print(what: string, files: readonly string[]): void {
  console.log(`\n${what}: ${files.length} files\n${files.map((file) => `  ${file}`).join('\n')}`);
}

const folder = await mkdtemp(join(tmpdir(), 'martingale-files-'));
const engine = await createEmbeddedEngine();
const service = await startService({ engine, dataFolder: join(folder, 'service') });
const files = new CalledFiles();

async function chat(): Promise<void> {
  const response = await fetch(`${service.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: baseModel,
      messages: [{ role: 'user', content: 'Is the shop open on Sunday?' }],
      max_completion_tokens: 8,
    }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(text);
}

const letters = defineEnvironment({
  name: 'letters',
  scenario: z.object({ letter: z.string() }),
  rollout: async ({ scenario, model, signal }) => {
    const { text } = await generateText({
      model: model.languageModel,
      prompt: `a word with ${scenario.letter}`,
      maxOutputTokens: 8,
      abortSignal: signal,
    });
    return text;
  },
  rewards: { success: ({ scenario, outcome }) => Number(outcome.includes(scenario.letter)) },
});

try {
  await files.start();
  for (let warm = 0; warm < 3; warm++) await chat();
  await files.take();
  await chat();
  print('a small chat request', await files.take());

  let step: Promise<string[]> = Promise.resolve([]);
  await train({
    environment: letters,
    scenarios: [{ letter: 'e' }],
    baseUrl: service.url,
    apiKey: service.apiKey,
    model: { project: 'bench', name: 'files', baseModel },
    steps: 2,
    groupsPerStep: 1,
    rolloutsPerGroup: 8,
    runDirectory: join(folder, 'run'),
    onEvent: (event) => {
      if (event.type === 'step') step = files.take();
    },
  });
  print('a training step, client and service', await step);
} finally {
  files.end();
  await service.close();
  await engine.close();
  await rm(folder, { recursive: true });
}
