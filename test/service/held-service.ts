// A service in its own process, for tests that kill it: `held-service.ts <data folder> <steps before it holds>`.
import { startService } from '../../src/service/index.ts';
import { ScriptedEngine } from '../support/scripted-engine.ts';

const [dataFolder = '', steps = '0'] = process.argv.slice(2);
const engine = new ScriptedEngine();
let left = Number(steps);
engine.hold = async (call) => {
  if (call === 'train' && left-- <= 0) await new Promise(() => {});
};
const service = await startService({ engine, dataFolder, apiKey: 'test-key' });
process.stdout.write(`url ${service.url}\n`);
