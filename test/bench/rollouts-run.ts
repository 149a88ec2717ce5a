import { monitorEventLoopDelay, PerformanceObserver } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type DelayedService, startDelayedService } from './delayed-process.ts';
import { delayMs, type RolloutsRow } from './rollouts.ts';
import { kinds, kindsThroughHttp, maxThroughHttp, type Work } from './rollouts-work.ts';

let longestCollectionMs = 0;
new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) longestCollectionMs = Math.max(longestCollectionMs, duration);
}).observe({ entryTypes: ['gc'] });

/** Prints a row for each kind of work with each number of calls in flight, as lines of JSON. */
async function measureAll(counts: readonly number[]): Promise<void> {
  await using service = await startDelayedService(delayMs);
  await using silent = await startDelayedService(2 ** 31 - 1);
  for (const inFlight of counts) {
    let alone = 0;
    for (const [what, work] of inFlight > maxThroughHttp ? kinds : [...kinds, ...kindsThroughHttp]) {
      const { kept, ...speed } = await measureSpeed(service, inFlight, work);
      alone ||= speed.perSecond;
      const { waiting, atService } = await measureWaiting(silent, inFlight, work);
      const share = speed.perSecond / alone;
      const row: RolloutsRow = { inFlight, what, ...speed, share, kib: { waiting, kept }, atService };
      console.log(JSON.stringify(row));
    }
  }
}

/** After one wave to warm up, four waves, and at least 2,000 calls. */
async function measureSpeed(service: DelayedService, inFlight: number, work: Work) {
  const client = service.connect();
  const calls = Math.max(4 * inFlight, 2_000);
  await work({ client, calls: inFlight, inFlight });
  const before = settledBytes();
  longestCollectionMs = 0;
  const delays = monitorEventLoopDelay({ resolution: 1 });
  delays.enable();
  const usedBefore = process.cpuUsage();
  const begun = performance.now();
  const kept = await work({ client, calls, inFlight });
  const perSecond = (calls / (performance.now() - begun)) * 1000;
  const { user, system } = process.cpuUsage(usedBefore);
  delays.disable();
  // The observer hears of collections later.
  await pause(10);
  const collectionMs = longestCollectionMs;
  const bytes = settledBytes() - before;
  const delayAt = (percentile: number) => Math.max(0, delays.percentile(percentile) / 1e6 - 1);
  await client.close();
  return {
    perSecond,
    cpuMs: (user + system) / calls / 1000,
    collectionMs,
    kept: kept ? bytes / calls / 1024 : 0,
    lag: { p50: delayAt(50), p99: delayAt(99) },
  };
}

/** Memory of a waiting rollout, measured while all wait for an answer that never comes. */
async function measureWaiting(service: DelayedService, inFlight: number, work: Work) {
  const client = service.connect();
  const stop = new AbortController();
  const before = settledBytes();
  const waiting = work({ client, calls: inFlight, inFlight, signal: stop.signal }).catch(() => undefined);
  let atService = 0;
  // Until no more arrive.
  for (let last = -1; last !== atService || atService === 0; ) {
    last = atService;
    await pause(500);
    atService = await service.inHand();
  }
  const bytes = settledBytes() - before;
  stop.abort(new Error('measured'));
  await waiting;
  await client.close();
  while ((await service.inHand()) > 0) await pause(50);
  return { waiting: bytes / inFlight / 1024, atService };
}

let collect: (() => void) | undefined;

/** Heap size after garbage collection. */
function settledBytes(): number {
  if (!collect) {
    setFlagsFromString('--expose-gc');
    collect = runInNewContext('gc');
  }
  collect?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

await measureAll(process.argv.slice(2).map(Number));
