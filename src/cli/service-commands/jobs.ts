import { Command } from 'commander';
import type { Client } from '../../client/index.ts';
import { jsonLine, MartingaleError, type Model, printable } from '../../contract/index.ts';
import { alignColumns } from '../../util/text-table.ts';
import {
  addServiceFlags,
  findModel,
  jsonFlag,
  nameOf,
  print,
  type ServiceFlags,
  withClient,
} from './connect.ts';

interface JobFlags extends ServiceFlags {
  follow?: boolean;
  cancel?: boolean;
}

/** Newest jobs that are listed of each model. */
const listed = 20;

/** `martingale jobs`: the jobs of all models, those of one, or one job with its events. */
export const jobsCommand = (): Command =>
  addServiceFlags(
    new Command('jobs')
      .description('List the training jobs of a service, or show one and its events.')
      .argument('[job or model]', 'id of a job, or project/model; without it, the jobs of all models')
      .option('--follow', "wait for a job's events until it ends")
      .option('--cancel', 'cancel a job')
      .addOption(jsonFlag()),
  ).action((what: string | undefined, flags: JobFlags) =>
    withClient(flags, async (client, signal) => {
      if (what !== undefined && !what.includes('/')) return showJob(client, { id: what, flags, signal });
      if (flags.follow || flags.cancel)
        throw new MartingaleError(
          'bad_option',
          `${flags.follow ? '--follow' : '--cancel'} needs the id of a job: \`martingale jobs\` lists them.`,
        );
      const models: AsyncIterable<Model> | Model[] =
        what === undefined ? client.models.list({ signal }) : [await findModel(client, what, signal)];
      await listJobs(client, { models, flags, signal });
    }),
  );

async function listJobs(
  client: Client,
  {
    models,
    flags,
    signal,
  }: { models: AsyncIterable<Model> | Iterable<Model>; flags: JobFlags; signal: AbortSignal },
): Promise<void> {
  const rows = [['MODEL', 'STEP', 'KIND', 'STATUS', 'CREATED', 'ID']];
  for await (const model of models) {
    let count = 0;
    for await (const job of client.trainingJobs.list(model.id, { order: 'desc', signal })) {
      if (flags.json) print(jsonLine(job));
      const { id, step, kind, status, created_at: created } = job;
      rows.push(
        [nameOf(model), String(step ?? '-'), kind ?? '', status ?? '', created ?? '', id].map(printable),
      );
      if (++count === listed) break;
    }
  }
  if (flags.json) return;
  print(rows.length === 1 ? 'There are no training jobs.\n' : `${alignColumns(rows).join('\n')}\n`);
}

async function showJob(
  client: Client,
  { id, flags, signal }: { id: string; flags: JobFlags; signal: AbortSignal },
): Promise<void> {
  const { follow, cancel, json } = flags;
  const found = cancel
    ? await client.trainingJobs.cancel(id, { signal })
    : await client.trainingJobs.get(id, { signal });
  if (json || !follow) print(json ? jsonLine(found) : `${found.id}  ${found.status}\n`);
  const events = follow
    ? client.trainingJobs.follow(id, { signal })
    : client.trainingJobs.events(id, { signal });
  for await (const event of events) {
    if (json) print(jsonLine(event));
    else print(`${printable(event.type)}  ${printable(JSON.stringify(event.data ?? {}))}\n`);
  }
}
