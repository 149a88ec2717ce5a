// A service in a process of its own that tells how long its event loop stood still and how much memory it took:
// `large-service.ts <data folder> <context length>`. A line on its input is answered by a line of figures.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import { startService } from '../../src/service/index.ts';
import { baseModel, ScriptedEngine } from '../support/scripted-engine.ts';

export interface Figures {
  /** Longest time between two turns of the event loop since the last figures. */
  stallMs: number;
  /** Most memory the process has held so far. */
  peakBytes: number;
  /** Tokens in the batches it has trained on. */
  trainedTokens: number;
}

const [dataFolder = '', contextLength = '512'] = process.argv.slice(2);

class CountingEngine extends ScriptedEngine {
  override readonly baseModels = [{ ...baseModel, contextLength: Number(contextLength) }];
}

const engine = new CountingEngine();
const service = await startService({
  engine,
  dataFolder,
  apiKey: 'test-key',
  log: (entry) => {
    if (entry.level === 'error') console.error(JSON.stringify(entry));
  },
});
const delay = monitorEventLoopDelay({ resolution: 1 });
delay.enable();
console.log(`url ${service.url}`);

createInterface({ input: process.stdin }).on('line', () => {
  const trainedTokens = engine.trained.reduce(
    (sum, { datums }) => sum + datums.reduce((length, { tokens }) => length + tokens.length, 0),
    0,
  );
  const figures: Figures = {
    stallMs: delay.max / 1e6,
    peakBytes: process.resourceUsage().maxRSS * 1024,
    trainedTokens,
  };
  delay.reset();
  console.log(`figures ${JSON.stringify(figures)}`);
});
process.stdin.once('end', () => process.exit(0));
