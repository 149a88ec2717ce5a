import { cp, rm } from 'node:fs/promises';
import { expect, vi } from 'vitest';
import { Caller } from './caller.ts';
import { countRecords, filesIn, logsIn, readBooks } from './counts.ts';
import type { EngineName } from './engines.ts';
import { callEverything, type Told } from './script.ts';
import type { Faults, World } from './world.ts';

export interface Life {
  name: string;
  /** Fault plans of its processes, one after another. */
  plans: readonly Faults[];
  engine?: EngineName;
  script?: (caller: Caller) => Promise<Told>;
  /** The data folder to start with. */
  from?: string;
}

/** Runs the script on a service that dies as planned, then reads its final records. */
export async function booksAfter(
  world: World,
  { name, plans, engine = 'chain', script = callEverything, from }: Life,
) {
  const service = world.service(name, plans, engine);
  const { dataFolder } = service;
  if (from !== undefined) await cp(from, dataFolder, { recursive: true });
  try {
    const caller = new Caller(service);
    const told = await script(caller);
    const counts = await readBooks(caller, told);
    const { kills } = service;
    // The payload of a job is deleted after its last event.
    await vi.waitFor(() => expect(filesIn(dataFolder, told).join()).not.toContain('jobs/'), 30_000);
    const files = filesIn(dataFolder, told);
    const logs = logsIn(dataFolder, told);
    await service.close();
    return { kills, counts: { ...counts, files, logs, records: countRecords(dataFolder) } };
  } finally {
    await service.close();
    await rm(dataFolder, { recursive: true, force: true });
  }
}
