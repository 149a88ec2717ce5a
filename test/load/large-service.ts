// A service in its own process that measures its longest tick and its memory: `large-service.ts <data folder>
// <context length>`. It answers each line of its input with a line of figures.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import { startService } from '../../src/service/index.ts';
import { baseModel, ScriptedEngine } from '../support/scripted-engine.ts';

export interface Figures {
  /** Longest tick of the event loop since the last figures. */
  stallMs: number;
  /** Peak memory of the process so far. */
  peakBytes: number;
  /** Tokens in all trained batches. */
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
