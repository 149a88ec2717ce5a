import { localSandbox } from '../../../src/environments.ts';
import { noImage } from './no-image.ts';

/** A harness that is killed while a command runs in its sandbox. Prints the line that the command writes. */
const signal = AbortSignal.timeout(60_000);
const settings = { image: noImage, workdir: '/app', copies: [], env: {}, hasNetwork: false, signal };
const sandbox = await localSandbox().create(settings);
await sandbox.exec('touch begun', { timeoutMs: 10_000, signal });
console.log('begun');
await sandbox.exec(`exec -a ${process.argv[2]} sleep 1000`, { timeoutMs: 60_000, signal });
