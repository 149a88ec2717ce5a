// A service with a deterministic engine in its own process, so that it can be killed. Prints its address.
import { startService } from '../../../src/service/index.ts';
import { CoinEngine } from '../../training/resume/coin-engine.ts';

const { dataFolder, apiKey, port } = JSON.parse(process.argv[2] ?? '{}');
const service = await startService({
  engine: new CoinEngine(),
  dataFolder,
  apiKey,
  port,
  log: (entry) => {
    if (entry.level === 'error') process.stderr.write(`${JSON.stringify(entry)}\n`);
  },
});
process.stdout.write(`${service.url}\n`);
