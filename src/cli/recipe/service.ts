import { type Client, createClient } from '../../client/index.ts';
import type { RecipeOptions } from './options.ts';
import { serviceFolder } from './run-directory.ts';

export interface RecipeService {
  client: Client;
  /** Where the service keeps its models; null for one that somebody else runs. */
  dataFolder: string | null;
  close: () => Promise<void>;
}

/** The service of `--base-url`, else one in this process, on a free port of this machine with a key of its own. */
export async function openService(options: RecipeOptions, runDirectory: string): Promise<RecipeService> {
  const { baseUrl, apiKey, threads } = options;
  if (baseUrl !== undefined && apiKey !== undefined) {
    const client = createClient({ baseUrl, apiKey });
    return { client, dataFolder: null, close: () => client.close() };
  }
  // Loaded here: whoever trains elsewhere needs neither, nor the engine's runtime installed.
  const [{ createEmbeddedEngine }, { startService }] = await Promise.all([
    import('../../engines/embedded/index.ts'),
    import('../../service/index.ts'),
  ]);
  const dataFolder = serviceFolder(runDirectory);
  const engine = await createEmbeddedEngine({ threads });
  try {
    const service = await startService({ engine, dataFolder });
    const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
    const close = async () => {
      await client.close();
      await service.close();
      await engine.close();
    };
    return { client, dataFolder, close };
  } catch (error) {
    await engine.close();
    throw error;
  }
}
