// Kills the harness at random, and at times its service; a table shows where.
import { expect, test } from 'vitest';
import { deriveSeed, randomSource } from '../../../src/index.ts';
import { byTwo } from '../../support/by-two.ts';
import { testScale, testSeed } from '../../support/size.ts';
import type { FaultMode, FaultPoint } from '../driver/fault.ts';
import { differencesOf, kindsOfRun, type Outcome, outcomeOf } from './outcomes.ts';
import { startRuns } from './runs.ts';

const kills = 12 * testScale;
const killModes: FaultMode[] = ['kill-before', 'kill-half', 'kill-after'];

/** What only a resumed run does. */
const cuts = ['events.jsonl', 'metrics.jsonl', 'trajectories/step-N.journal.jsonl'].map((file) => ({
  name: `truncate ${file}`,
  occurrence: 0,
}));

test(`${kills} random kills lose nothing and repeat nothing`, {
  tags: ['long'],
  timeout: kills * 60_000,
}, async () => {
  const table = {
    runs: 0,
    'kills of the harness': 0,
    'kills of the service': 0,
    'ended by an error, gone on with': 0,
  };
  const at = new Map<string, number>();
  const problems: object[] = [];

  const worker = async (half: number) => {
    const runs = await startRuns();
    try {
      const next = randomSource(deriveSeed(testSeed, half));
      const pick = <Item>(items: readonly Item[]): Item => {
        const item = items[Math.floor(next() * items.length)];
        if (item === undefined) throw new RangeError('Nothing to pick from.');
        return item;
      };
      const known = new Map<string, { points: FaultPoint[]; undisturbed: Outcome }>();
      for (const { mode, settings } of kindsOfRun) {
        const { points, ended } = await runs.pointsOf(`${mode}-whole`, settings);
        const undisturbed = await outcomeOf(runs, `${mode}-whole`, ended.result);
        known.set(mode, { points, undisturbed });
      }
      for (let index = 0; table['kills of the harness'] < kills; index++) {
        const { mode, settings } = pick(kindsOfRun);
        const { points = [], undisturbed } = known.get(mode) ?? {};
        const name = `${mode}-${index}`;
        const told: object[] = [];
        table.runs++;
        for (let times = 1 + Math.floor(next() * 3); times > 0; times--) {
          const plan = { mode: pick(killModes), at: pick(told.length > 0 ? [...points, ...cuts] : points) };
          const [restartsMeanwhile, restartsAfter] = [next() < 0.15, next() < 0.25];
          const running = runs.run(name, { ...settings, resume: 'auto', plan });
          if (restartsMeanwhile) await runs.restartService();
          const { killed } = await running;
          if (restartsAfter) await runs.restartService();
          told.push({ ...plan, killed, restartsMeanwhile, restartsAfter });
          table['kills of the service'] += Number(restartsMeanwhile) + Number(restartsAfter);
          if (!killed) continue;
          table['kills of the harness']++;
          at.set(plan.at.name, (at.get(plan.at.name) ?? 0) + 1);
        }
        let ended = await runs.run(name, { ...settings, resume: 'auto' });
        for (let again = 0; again < 3 && ended.errors !== ''; again++) {
          table['ended by an error, gone on with']++;
          told.push({ errors: ended.errors.slice(0, 1000) });
          ended = await runs.run(name, { ...settings, resume: 'auto' });
        }
        const outcome = ended.errors || (await outcomeOf(runs, name, ended.result));
        const differences = differencesOf(outcome, undisturbed);
        if (differences.length > 0) problems.push({ name, told, differences });
      }
      expect(runs.serviceErrors()).toBe('');
    } finally {
      await runs.close();
    }
  };
  await byTwo([0, 1], worker);
  console.table({ ...table, 'kinds of step': at.size, 'lost or doubled': problems.length });
  console.table(Object.fromEntries([...at].sort()));
  expect(problems).toEqual([]);
});
