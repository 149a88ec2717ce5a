import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { optimize } from 'martingale';
import { addCode, codes, knowingModel, scenarios, validation } from './codes.ts';

/** A process that optimises: `program.ts <run directory> <kind> <number>` kills itself at that call or reflection. */
const [, , directory = '', kind = '', number = '0'] = process.argv;
const at = (what: string, count: number) => {
  if (what === kind && count === Number(number)) process.kill(process.pid, 'SIGKILL');
  appendFileSync(join(directory, '..', `${what}.log`), '.');
};
let reflections = 0;
const { iterations, best } = await optimize({
  environment: codes,
  scenarios,
  validation,
  model: knowingModel((calls) => at('call', calls)).model,
  reflect: (request) => {
    at('reflect', ++reflections);
    return addCode(request);
  },
  iterations: 5,
  concurrency: 2,
  runDirectory: directory,
  resume: 'auto',
  progress: false,
});
console.log(JSON.stringify({ best, iterations: iterations.map(({ spent: _, ...rest }) => rest) }));
