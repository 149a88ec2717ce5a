import { Command } from 'commander';
import type { Client } from '../../client/index.ts';
import { jsonLine, MartingaleError, type Model, printable } from '../../contract/index.ts';
import { alignColumns } from '../../util/text-table.ts';
import { findTrainedModel, nameOf } from '../find-model.ts';
import { addServiceFlags, jsonFlag, print, type ServiceFlags, withClient } from './connect.ts';

interface JobFlags extends ServiceFlags {
  follow?: boolean;
  cancel?: boolean;
}

/** Characters of an id, which is a UUID. */
const idLength = 36;

/** Newest jobs that are listed of each model. */
const listed = 20;

/** `martingale jobs`: the jobs of all models or of one, or a single job with its events. */
export const jobsCommand = (): Command =>
  addServiceFlags(
    new Command('jobs')
      .description('List the training jobs of a service, or show one and its events.')
      .argument(
        '[job or model]',
        'id of a job or its beginning, or project/model; without it, the jobs of all models',
      )
      .option('--follow', "wait for a job's events until it ends")
      .option('--cancel', 'cancel a job')
      .addOption(jsonFlag()),
  ).action((what: string | undefined, flags: JobFlags) =>
    withClient(flags, async (client, signal) => {
      if (what !== undefined && !what.includes('/'))
        return showJob(client, { id: await findJob(client, what, signal), flags, signal });
      if (flags.follow || flags.cancel)
        throw new MartingaleError(
          'bad_option',
          `${flags.follow ? '--follow' : '--cancel'} needs the id of a job: \`martingale jobs\` lists them.`,
        );
      const models: AsyncIterable<Model> | Model[] =
        what === undefined
          ? client.models.list({ signal })
          : [(await findTrainedModel(client, what, signal)).model];
      await listJobs(client, { models, flags, signal });
    }),
  );

/** The id of a job from its beginning. A whole id is not looked for. */
async function findJob(client: Client, start: string, signal: AbortSignal): Promise<string> {
  if (start.length >= idLength) return start;
  const found: { id: string; text: string }[] = [];
  for await (const model of client.models.list({ limit: 100, signal }))
    for await (const { id, step, status } of client.trainingJobs.list(model.id, { limit: 100, signal }))
      if (id.startsWith(start))
        found.push({ id, text: `${id} (${nameOf(model)} step ${step ?? '-'}, ${status})` });
  const [only, other] = found;
  if (only && !other) return only.id;
  const candidates = found.slice(0, listed).map(({ text }) => text);
  throw new MartingaleError(
    'job_not_found',
    only
      ? `${found.length} jobs begin with ${start}. Name more of the id: ${candidates.join(', ')}.`
      : `There is no job whose id begins with ${start}: \`martingale jobs\` lists them. A model is named project/model.`,
  );
}

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
