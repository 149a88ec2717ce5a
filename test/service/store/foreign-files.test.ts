import { randomUUID } from 'node:crypto';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { open } from '../opened.ts';

/** Files that file managers, backups and people put into folders. */
const strangers = ['@eaDir', '.DS_Store', 'lost+found', 'notes.txt'];

test('foreign files in the data folder neither prevent the start nor are removed', async () => {
  const first = await open();
  const { dataFolder } = first;
  const model = await first.createModel();
  await first.close();
  const ofModel = ['checkpoints', 'logs'].map((name) => join('models', model.id, name));
  const folders = ['models', 'jobs', 'uploads', 'incoming', ...ofModel];
  const put: string[] = [];
  for (const folder of folders) {
    mkdirSync(join(dataFolder, folder), { recursive: true });
    for (const name of strangers) {
      const path = join(dataFolder, folder, name);
      if (name.includes('.')) writeFileSync(path, 'mine');
      else {
        mkdirSync(path);
        writeFileSync(join(path, 'inside'), 'mine');
      }
      put.push(join(folder, name));
    }
  }
  // Folders with the name of a file, and files with the name of a folder.
  const odd = [join('jobs', `${randomUUID()}.jsonl.gz`), join('incoming', randomUUID())];
  for (const path of odd) mkdirSync(join(dataFolder, path));
  const file = join('models', randomUUID());
  writeFileSync(join(dataFolder, file), 'mine');
  // Leftovers of the service's own crashes are removed as usual.
  for (const path of [
    join('jobs', `${randomUUID()}.jsonl.gz`),
    join('incoming', randomUUID()),
    join('uploads', `${'0'.repeat(64)}.jsonl`),
    join('models', model.id, 'logs', 'val.jsonl.gz'),
  ])
    writeFileSync(join(dataFolder, path), '');
  for (const path of [
    join('models', randomUUID()),
    join('models', model.id, 'checkpoints', 'step-1.partial'),
  ])
    mkdirSync(join(dataFolder, path));

  const { log } = await open({ dataFolder });
  const left = folders.flatMap((folder) =>
    readdirSync(join(dataFolder, folder)).map((name) => join(folder, name)),
  );
  const foreign = [...put, ...odd, file].sort();
  expect(left.filter((path) => path !== join('models', model.id)).sort()).toEqual(foreign);
  const logged = log.filter(({ event }) => event === 'unknown_file').map(({ path }) => path);
  expect(logged.sort()).toEqual(foreign);
});
