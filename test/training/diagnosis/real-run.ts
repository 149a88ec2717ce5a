import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { z } from 'zod';
import { type Alarm, type Environment, type StepReport, train } from '../../../src/index.ts';
import { type FakePolicy, type FakeService, startFakeService } from '../../model/fake-service.ts';

export interface RealRunOptions<Schema extends z.ZodType, Outcome> {
  environment: Environment<Schema, Outcome>;
  scenarios: readonly z.input<Schema>[];
  policy: FakePolicy;
  /** Default 5, the number that alarms on means need. */
  steps?: number;
  rolloutsPerGroup?: number;
  runDirectory?: string;
  resume?: boolean;
  /** Default: a service for this run only. */
  service?: FakeService;
}

/** Trains over HTTP with all scenarios in each step; returns the alarms. */
export async function realRun<Schema extends z.ZodType, Outcome>({
  environment,
  scenarios,
  policy,
  steps = 5,
  rolloutsPerGroup = 3,
  runDirectory,
  resume = false,
  service: given,
}: RealRunOptions<Schema, Outcome>): Promise<{ reports: StepReport[]; alarms: Alarm[] }> {
  await using own = given ? null : await startFakeService({ policy });
  const service = given ?? own;
  if (!service) throw new TypeError('There is no service.');
  const alarms: Alarm[] = [];
  const { reports } = await train({
    environment,
    scenarios,
    client: service.client,
    model: { project: 'p', name: 'n', baseModel: 'tiny' },
    steps,
    groupsPerStep: scenarios.length,
    rolloutsPerGroup,
    runDirectory: runDirectory ?? join(await mkdtemp(join(tmpdir(), 'martingale-')), 'run'),
    onEvent: (event) => {
      if (event.type !== 'alarm') return;
      const { type: _, ...alarm } = event;
      alarms.push(alarm);
    },
    resume,
  });
  return { reports, alarms };
}
