import { cpus } from 'node:os';
import { benchEngine } from './engine.ts';
import { benchService } from './service.ts';
import { benchStep } from './step.ts';

const batches = [1, 8, 32, 128];
const whole = (value: number) => Math.round(value).toLocaleString('en');

console.log(`${cpus()[0]?.model ?? 'unknown processor'}, ${cpus().length} cores, Node ${process.version}`);
console.log('Figures of one run; compare rows of this table with each other, not with another machine.\n');

console.log(
  '| threads | batch | training, tokens/s | decoding, tokens/s | decoding through HTTP | of the bare engine | short calls/s |',
);
console.log('| --- | --- | --- | --- | --- | --- | --- |');
for (const threads of [1, 2]) {
  const bare = await benchEngine(threads, batches);
  const served = await benchService(threads, batches);
  bare.forEach(({ batch, training, decoding }, row) => {
    const through = served[row];
    if (!through) return;
    const share = `${Math.round((through.decoding / decoding) * 100)}%`;
    console.log(
      `| ${threads} | ${batch} | ${whole(training)} | ${whole(decoding)} | ${whole(through.decoding)} | ${share} | ${whole(through.calls)} |`,
    );
  });
}

console.log('\nOne training step of the main job (12 groups of 8 rollouts), share of its time:\n');
console.log('| part | ms a step | share |');
console.log('| --- | --- | --- |');
for (const { part, milliseconds, share } of await benchStep())
  console.log(`| ${part} | ${milliseconds.toFixed(1)} | ${Math.round(share * 100)}% |`);
