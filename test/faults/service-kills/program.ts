// A service in its own process, to be killed. Prints its address.
import { startService } from '../../../src/service/index.ts';
import { openEngine } from './engines.ts';

const { dataFolder, apiKey, engine } = JSON.parse(process.argv[2] ?? '{}');
const service = await startService({
  engine: await openEngine(engine, `${dataFolder}-engine`),
  dataFolder,
  apiKey,
});
// Node writes its compile cache only if the process exits by itself.
process.once('SIGTERM', () => process.exit());
process.stdout.write(`${service.url}\n`);
