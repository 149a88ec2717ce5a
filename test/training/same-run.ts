import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createClient } from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import { startService } from 'martingale/service';

/** The service on a data folder, with an engine of one thread, for as long as `use` takes. */
export async function served<Result>(
  dataFolder: string,
  use: (client: ReturnType<typeof createClient>) => Promise<Result>,
) {
  const engine = await createEmbeddedEngine({ threads: 1 });
  const service = await startService({ engine, dataFolder });
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  try {
    return await use(client);
  } finally {
    await client.close();
    await service.close();
    await engine.close();
  }
}

/** Token ids and log-probabilities of all choices of a run, in the order of its records. */
export async function sampledIn(runDirectory: string): Promise<unknown[]> {
  const trajectories = join(runDirectory, 'trajectories');
  const found: unknown[] = [];
  for (const name of (await readdir(trajectories)).sort())
    for (const line of (await readFile(join(trajectories, name), 'utf8')).trim().split('\n'))
      JSON.parse(line, (_key, value) => {
        if (Array.isArray(value?.token_ids) && value.token_logprobs)
          found.push([value.token_ids, value.token_logprobs]);
        return value;
      });
  return found;
}

/** Hash of the newest weights of a service. */
export async function weightsIn(dataFolder: string): Promise<string> {
  const files = await readdir(dataFolder, { recursive: true });
  const newest = files
    .filter((name) => name.endsWith('model.safetensors'))
    .sort()
    .at(-1);
  return createHash('sha256')
    .update(await readFile(join(dataFolder, newest ?? '')))
    .digest('hex');
}
