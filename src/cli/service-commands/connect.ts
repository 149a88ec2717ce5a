import { type Command, Option } from 'commander';
import { type Client, createClient } from '../../client/index.ts';
import { MartingaleError, type Model } from '../../contract/index.ts';
import { serviceUrl } from '../flags.ts';
import { listenForInterrupt } from '../program-end.ts';

export interface ServiceFlags {
  baseUrl: string;
  apiKey?: string;
  json?: boolean;
}

export const addServiceFlags = (command: Command): Command =>
  command
    .addOption(
      new Option('--base-url <url>', 'the service')
        .env('MARTINGALE_BASE_URL')
        .argParser(serviceUrl)
        .default('http://127.0.0.1:8000'),
    )
    .addOption(new Option('--api-key <key>', 'key of the service').env('MARTINGALE_API_KEY'));

export const jsonFlag = (): Option => new Option('--json', 'print JSON, for programs');

/** Runs work with a client of the service; an interrupt aborts its signal. */
export async function withClient(
  { baseUrl, apiKey }: ServiceFlags,
  work: (client: Client, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  if (!apiKey)
    throw new MartingaleError(
      'bad_option',
      'a key of the service is missing: set MARTINGALE_API_KEY or pass --api-key.',
    );
  const client = createClient({ baseUrl, apiKey });
  const interrupt = listenForInterrupt({ limitMs: 5000, onFirst: () => {}, onEarlyExit: () => {} });
  try {
    await work(client, interrupt.signal);
  } catch (error) {
    if (interrupt.status === undefined) throw error;
  } finally {
    if (interrupt.status !== undefined) process.exitCode = interrupt.status;
    await client.close();
    interrupt.release();
  }
}

export const print = (text: string): void => void process.stdout.write(text);

export const nameOf = ({ entity, project, name }: Model): string => `${entity}/${project}/${name}`;

/** The model of a name: `project/model`, or `entity/project/model`. */
export async function findModel(client: Client, name: string, signal: AbortSignal): Promise<Model> {
  for await (const model of client.models.list({ signal }))
    if ([nameOf(model), `${model.project}/${model.name}`].includes(name)) return model;
  throw new MartingaleError(
    'model_not_found',
    `the service has no model ${name}: \`martingale models\` lists them.`,
  );
}
