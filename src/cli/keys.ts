import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { MartingaleError, namePartPattern } from '../contract/index.ts';
import type { KeyRecord, KeyStore } from '../service/index.ts';
import { alignColumns } from '../util/text-table.ts';
import { dataFlag } from './flags.ts';

interface DataOption {
  data: string;
}

interface CreateOptions extends DataOption {
  name: string;
  entity?: string;
}

const maxNameLength = 100;

// Loaded on use, so that the other commands start without it.
const service = () => import('../service/index.ts');

async function create({ data, name, entity }: CreateOptions): Promise<void> {
  const folder = resolve(data);
  const keys = await (await service()).openKeys(folder);
  try {
    const { id, key } = keys.create(name, { entity: entity ?? null });
    // Standard output gets only the key, for scripts.
    process.stdout.write(`${key}\n`);
    const scope = entity === undefined ? 'all models' : `the models of ${entity} only`;
    process.stderr.write(
      `This key is shown only once. It works for every service on ${folder}, including a running one, and for ` +
        `${scope}. "martingale keys revoke ${id}" revokes it.\n`,
    );
  } finally {
    keys.close();
  }
}

/** Passes the keys of a data folder to `use`; null if none were created. @throws MartingaleError without the folder */
async function withKeys(data: string, use: (keys: KeyStore | null, folder: string) => void): Promise<void> {
  const folder = resolve(data);
  if (!existsSync(folder))
    throw new MartingaleError('data_folder_not_found', `There is no data folder ${folder}. Check --data.`);
  const { KeyStore, openKeys } = await service();
  const keys = KeyStore.isIn(folder) ? await openKeys(folder) : null;
  try {
    use(keys, folder);
  } finally {
    keys?.close();
  }
}

const list = ({ data }: DataOption) =>
  withKeys(data, (keys) => void process.stdout.write(keyTable(keys?.list() ?? [])));

const revoke = (id: string, { data }: DataOption) =>
  withKeys(data, (keys, folder) => {
    const before = keys?.revoke(id);
    if (!before) {
      const remedy = '"martingale keys list" shows the ids.';
      throw new MartingaleError('key_not_found', `${folder} has no key ${JSON.stringify(id)}. ${remedy}`);
    }
    const { revokedAt } = before;
    process.stdout.write(
      revokedAt === null ? `revoked ${id}\n` : `${id} was already revoked, at ${revokedAt}\n`,
    );
  });

/** The keys as a table, oldest first. */
export function keyTable(keys: readonly KeyRecord[]): string {
  if (keys.length === 0) return 'There are no keys. "martingale keys create" makes one.\n';
  const rows = keys.map(({ id, name, entity, createdAt, lastUsedAt, revokedAt }) => [
    id,
    name || '-',
    entity ?? 'all',
    createdAt,
    lastUsedAt ?? 'never',
    revokedAt ?? '-',
  ]);
  const lines = alignColumns([['id', 'name', 'entity', 'created', 'last used', 'revoked'], ...rows]);
  return `${lines.join('\n')}\n`;
}

/** Refuses control characters, which would affect the terminal that lists the keys. */
function keyName(text: string): string {
  if (text.length <= maxNameLength && !/\p{C}/u.test(text)) return text;
  throw new InvalidArgumentError(
    `It must have at most ${maxNameLength} characters, none of them a control character.`,
  );
}

function entityName(text: string): string {
  if (namePartPattern.test(text)) return text;
  throw new InvalidArgumentError(
    'It must be 1 to 128 letters, digits, dots, underscores or hyphens, and start with a letter or digit.',
  );
}

export const keysCommand = (): Command =>
  new Command('keys')
    .description(
      'Create, list and revoke the API keys of a data folder; a running service applies changes at once.',
    )
    .addCommand(
      new Command('create')
        .description('Create a key and print it, only this once.')
        .option('--name <name>', 'name of the key in the list', keyName, '')
        .option(
          '--entity <entity>',
          'entity whose models the key can use and create; default: all entities',
          entityName,
        )
        .addOption(dataFlag())
        .action((options: CreateOptions) => create(options)),
    )
    .addCommand(
      new Command('list')
        .description('List the keys: id, name, entity, and when each was created, last used and revoked.')
        .addOption(dataFlag())
        .action((options: DataOption) => list(options)),
    )
    .addCommand(
      new Command('revoke')
        .description('Revoke a key permanently.')
        .argument('<id>', 'its id in the list')
        .addOption(dataFlag())
        .action((id: string, options: DataOption) => revoke(id, options)),
    );
