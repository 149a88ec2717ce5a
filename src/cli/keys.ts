import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { namePartPattern } from '../contract/index.ts';
import type { KeyRecord, KeyStore } from '../service/index.ts';
import { dataFlag } from './flags.ts';

interface DataOption {
  data: string;
}

interface CreateOptions extends DataOption {
  name: string;
  entity?: string;
}

const longestName = 100;

/** Opens the keys of a data folder; undefined if it has none, unless `isNew`. */
async function openKeys(data: string, { isNew }: { isNew: boolean }): Promise<KeyStore | undefined> {
  // Loaded here, so that the other commands start without it.
  const { KeyStore, openKeys: open } = await import('../service/index.ts');
  const folder = resolve(data);
  return isNew || KeyStore.isIn(folder) ? open(folder) : undefined;
}

async function create({ data, name, entity }: CreateOptions): Promise<void> {
  const keys = await openKeys(data, { isNew: true });
  if (!keys) return;
  try {
    const { id, key } = keys.create(name, { entity: entity ?? null });
    // Standard output gets only the key, for scripts.
    process.stdout.write(`${key}\n`);
    process.stderr.write(
      `This is the only time it is shown. It opens every service on ${resolve(data)}, also one that runs now, ${entity === undefined ? 'with all its models' : `and there the models of ${entity} alone`}; "martingale keys revoke ${id}" ends it.\n`,
    );
  } finally {
    keys.close();
  }
}

async function list({ data }: DataOption): Promise<void> {
  const keys = await openKeys(data, { isNew: false });
  if (!keys) return tellOfNone(resolve(data));
  try {
    process.stdout.write(keyTable(keys.list()));
  } finally {
    keys.close();
  }
}

function tellOfNone(folder: string): void {
  if (existsSync(folder)) {
    process.stdout.write(`No keys were ever made in ${folder}. "martingale keys create" makes one.\n`);
    return;
  }
  process.stderr.write(`error: there is no data folder ${folder}; check --data. [data_folder_not_found]\n`);
  process.exitCode = 1;
}

async function revoke(id: string, { data }: DataOption): Promise<void> {
  const keys = await openKeys(data, { isNew: false });
  try {
    const before = keys?.revoke(id);
    if (!before) {
      process.stderr.write(
        `error: there is no key ${JSON.stringify(id)} in ${resolve(data)}; "martingale keys list" shows the ids. [key_not_found]\n`,
      );
      process.exitCode = 1;
    } else if (before.revokedAt === null) process.stdout.write(`revoked ${id}\n`);
    else process.stdout.write(`${id} was revoked before, at ${before.revokedAt}\n`);
  } finally {
    keys?.close();
  }
}

/** The keys as a table, oldest first. */
export function keyTable(keys: readonly KeyRecord[]): string {
  if (keys.length === 0) return 'There are no keys. "martingale keys create" makes one.\n';
  const rows = [
    ['id', 'name', 'entity', 'created', 'last used', 'revoked'],
    ...keys.map(({ id, name, entity, createdAt, lastUsedAt, revokedAt }) => [
      id,
      name || '-',
      entity ?? 'all',
      createdAt,
      lastUsedAt ?? 'never',
      revokedAt ?? '-',
    ]),
  ];
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('');
}

/** Refuses control characters, which would affect the terminal that lists the keys. */
function keyName(text: string): string {
  if (text.length <= longestName && !/\p{C}/u.test(text)) return text;
  throw new InvalidArgumentError(
    `It must have at most ${longestName} characters, none of them a control character.`,
  );
}

function entityName(text: string): string {
  if (namePartPattern.test(text)) return text;
  throw new InvalidArgumentError(
    'It must be 1 to 128 letters, digits, dots, underscores or hyphens, and begin with a letter or digit.',
  );
}

export const keysCommand = (): Command =>
  new Command('keys')
    .description(
      'Make, list and revoke the API keys of a data folder; a service that runs on it takes note at once.',
    )
    .addCommand(
      new Command('create')
        .description('Make a key and print it, this once.')
        .option('--name <name>', 'what to call it in the list', keyName, '')
        .option(
          '--entity <entity>',
          'the one entity whose models it sees and makes; without it, those of all',
          entityName,
        )
        .addOption(dataFlag())
        .action((options: CreateOptions) => create(options)),
    )
    .addCommand(
      new Command('list')
        .description('List the keys: id, name, entity, and when each was made, last used and revoked.')
        .addOption(dataFlag())
        .action((options: DataOption) => list(options)),
    )
    .addCommand(
      new Command('revoke')
        .description('End a key for good.')
        .argument('<id>', 'its id, as the list shows it')
        .addOption(dataFlag())
        .action((id: string, options: DataOption) => revoke(id, options)),
    );
