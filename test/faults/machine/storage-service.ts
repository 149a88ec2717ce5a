// A service with a scripted engine in its own process: `storage-service.ts <data folder>`. It trains only while the
// file MARTINGALE_TEST_HOLD does not exist. MARTINGALE_TEST_ENGINE=embedded chooses the embedded engine, and
// MARTINGALE_TEST_CHECKPOINT a folder for it, which it serves as `generated`.
import { existsSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { createEmbeddedEngine } from '../../../src/engines/embedded/index.ts';
import { startService } from '../../../src/service/index.ts';
import { ScriptedEngine } from '../../support/scripted-engine.ts';

const [dataFolder = ''] = process.argv.slice(2);
const hold = process.env.MARTINGALE_TEST_HOLD;

function scripted(): ScriptedEngine {
  const engine = new ScriptedEngine();
  engine.hold = async (place) => {
    while (place === 'train' && hold !== undefined && existsSync(hold)) await pause(5);
  };
  return engine;
}

const checkpoint = process.env.MARTINGALE_TEST_CHECKPOINT;
// The adapter and its optimizer take 6 MB.
const checkpoints =
  checkpoint === undefined ? [] : [{ folder: checkpoint, id: 'generated', lora: { rank: 512 } }];
const isEmbedded = process.env.MARTINGALE_TEST_ENGINE === 'embedded';
const engine = isEmbedded ? await createEmbeddedEngine({ threads: 1, checkpoints }) : scripted();

try {
  const service = await startService({
    ...{ engine, dataFolder, apiKey: 'test-key' },
    log: (entry) => process.stderr.write(`${JSON.stringify(entry)}\n`),
  });
  process.stdout.write(`url ${service.url}\n`);
  process.on('SIGTERM', async () => {
    await service.close();
    await engine.close();
    process.exit();
  });
} catch (error) {
  if (!(error instanceof Error)) throw error;
  process.stdout.write(`refused ${JSON.stringify({ ...error, message: error.message })}\n`);
}
