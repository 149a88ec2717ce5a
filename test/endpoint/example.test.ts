import { join } from 'node:path';
import { createEmbeddedEngine } from 'martingale/embedded';
import { startService } from 'martingale/service';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../support/files.ts';
import { runProgram } from '../support/programs.ts';

test('an agent that knows nothing of training is trained through the endpoint', {
  tags: ['long'],
}, async () => {
  const folder = await temporaryFolder();
  const engine = await createEmbeddedEngine({ threads: 1 });
  const service = await startService({ engine, dataFolder: join(folder, 'data') });
  try {
    const output = await runProgram('examples/any-agent.ts', {
      args: ['2', join(folder, 'runs')],
      env: { MARTINGALE_BASE_URL: service.url, MARTINGALE_API_KEY: service.apiKey },
    });
    expect(output).toMatch(/^0 \S+\n1 \S+\n$/);
  } finally {
    await service.close();
    await engine.close();
  }
});
