import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../support/files.ts';
import { fromSource, root, runProgram } from '../support/programs.ts';
import { startOtlpReceiver } from './otlp-receiver.ts';

test('a run and a service in another process, each with its own SDK, are one trace', {
  tags: ['long'],
}, async () => {
  const folder = await temporaryFolder();
  const collector = await startOtlpReceiver();
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, MARTINGALE_API_KEY: 'mine' };
  const preload = [...fromSource, '--import', './test/telemetry/preloaded-sdk.ts'];
  const flags = ['serve', '--port', '0', '--threads', '1', '--data', join(folder, 'data')];
  const child = spawn(process.execPath, [...preload, 'src/cli/main.ts', ...flags], {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await collector.close();
  });
  let text = '';
  for await (const chunk of child.stdout) {
    text += chunk;
    if (text.includes('Ctrl-C')) break;
  }
  const url = /http:\/\/\S+?(?=,)/.exec(text)?.[0] ?? '';
  await runProgram('examples/opentelemetry.ts', {
    args: ['1', join(folder, 'run')],
    env: { ...env, MARTINGALE_BASE_URL: url },
  });

  const named = (name: string) => collector.spans.filter((span) => span.name === name);
  // The service's exporter sends when it has something to send.
  await expect.poll(() => named('training_job')).toHaveLength(1);
  const [run] = named('run');
  const requests = named('POST /v1/chat/completions');
  expect(requests).toHaveLength(8);
  expect(new Set(requests.map(({ traceId }) => traceId))).toEqual(new Set([run?.traceId]));
  const [work] = named('training_job');
  const [job] = named('job');
  expect(work?.links).toEqual([{ traceId: job?.traceId, spanId: job?.spanId }]);
  child.kill('SIGTERM');
  await once(child, 'exit');
});
