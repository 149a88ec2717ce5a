// Trains on the environment `lamp` as its JSON argument says. Prints a line of JSON when a job runs, and at the end.
import { writeSync } from 'node:fs';
import { train } from '../../../src/index.ts';
import { lampRun } from './environments.ts';

const { dieInJobOfStep, ...settings } = JSON.parse(process.argv[2] ?? '{}');
/** At once, because the process may die next. */
const print = (value: object) => writeSync(1, `${JSON.stringify(value)}\n`);

const { reason, finalStep } = await train({
  ...lampRun,
  ...settings,
  onEvent: (event) => {
    if (event.type !== 'job' || event.status !== 'running') return;
    print({ jobOfStep: event.step });
    if (event.step === dieInJobOfStep) process.kill(process.pid, 'SIGKILL');
  },
});
print({ reason, finalStep });
