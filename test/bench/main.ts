import { benchClients } from './clients.ts';
import { benchEngine } from './engine.ts';
import { benchLargeBodies } from './large-bodies.ts';
import { benchMasks, vocabularySize } from './masks.ts';
import { benchRollouts, delayMs } from './rollouts.ts';
import { benchStart } from './start.ts';
import { benchStep } from './step.ts';
import { head, machine, row, whole } from './table.ts';

const percent = (share: number) => `${Math.round(share * 100)}%`;

console.log(machine);
console.log('Figures of one run; compare rows of a table with each other, not with another machine.\n');

head('threads', 'batch', 'training, tokens/s', 'decoding, tokens/s');
for (const threads of [1, 2])
  for (const { batch, training, decoding } of await benchEngine(threads, [1, 8, 32, 128]))
    row(threads, batch, whole(training), whole(decoding));

console.log('\nChat completions over HTTP, beside the engine alone with as many callers:\n');
head(
  ...['clients', 'tokens a reply', 'kind', 'tokens/s', 'of the engine', 'chats/s'],
  ...["CPU of a chat on the service's thread, ms", "in the callers' process, ms"],
);
const chatLoads = [
  ...[1, 32, 512].map((clients) => ({ clients, replyTokens: 64 })),
  ...[32, 512].map((clients) => ({ clients, replyTokens: 16 })),
];
for (const { clients, replyTokens, ...kinds } of await benchClients(chatLoads)) {
  const { bare, whole: answered, streamed } = kinds;
  for (const [kind, { tokens, calls, cpuMs }] of Object.entries({
    'engine alone': bare,
    whole: answered,
    streamed,
  }))
    row(
      ...[clients, replyTokens, kind, whole(tokens), percent(tokens / bare.tokens), whole(calls)],
      ...[cpuMs.service.toFixed(2), cpuMs.callers.toFixed(2)],
    );
}

console.log('\nOne training step of the main job (12 groups of 8 rollouts), share of its time:\n');
head('part', 'ms a step', 'share');
for (const { part, milliseconds, share } of await benchStep())
  row(part, milliseconds.toFixed(1), percent(share));

console.log(
  `\nRollouts of one call against a service in another process that answers after ${delayMs} ms:\n`,
);
head(
  ...['in flight', 'what', 'a second', 'of the client alone', 'CPU of a call, ms'],
  ...['loop delay p50, ms', 'p99, ms', 'longest garbage collection, ms'],
  ...['KiB each, waiting', 'KiB each, ended and kept', 'at the service at once'],
);
for await (const {
  inFlight,
  what,
  perSecond,
  share,
  cpuMs,
  lag,
  collectionMs,
  kib,
  atService,
} of benchRollouts([64, 1000, 4000, 16_000]))
  row(
    ...[whole(inFlight), what, whole(perSecond), percent(share), cpuMs.toFixed(2)],
    ...[lag.p50.toFixed(1), lag.p99.toFixed(1), collectionMs.toFixed(1)],
    ...[kib.waiting.toFixed(1), kib.kept.toFixed(1), whole(atService)],
  );

console.log(
  `\nLegal tokens of constraints, of ${whole(vocabularySize)}, in one reply sampled byte by byte:\n`,
);
head(
  ...['constraint', 'decisions', 'new state: first, ms', 'median', 'longest', 'known state, ms', 'MiB kept'],
);
for (const { what, decisions, cold, known, mib } of await benchMasks())
  row(
    ...[what, decisions, cold.first.toFixed(1), cold.median.toFixed(2), cold.most.toFixed(1)],
    ...[known.toFixed(3), mib.toFixed(1)],
  );

const largeBytes = 100e6;
console.log(`\nBodies of ${largeBytes / 1e6} MB on their way through the service:\n`);
head('what', 'MB/s', 'longest stall of the event loop, ms', 'peak memory, MiB');
for (const { what, megabytesPerSecond, stallMs, peakMiB } of await benchLargeBodies(largeBytes))
  row(what, megabytesPerSecond.toFixed(1), stallMs.toFixed(1), whole(peakMiB));

console.log('\nThe built package, in a new process each time, the fastest of several:\n');
head('what', 'ms');
for (const { what, milliseconds } of await benchStart()) row(what, whole(milliseconds));
