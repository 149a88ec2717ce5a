import { Client, createClient, isRequestError } from '../client/index.ts';
import { MartingaleError } from '../contract/index.ts';
import { startTimer } from '../util/deadline.ts';

/** Time without an answer after which the user is told. */
const silenceMs = 2000;

interface ServiceToOpen {
  baseUrl: string;
  apiKey?: string | undefined;
  /** Gets a line if the service is silent. Default: it goes to standard error. */
  note?: (line: string) => void;
}

const toErrors = (line: string) => void process.stderr.write(`${line}\n`);

/**
 * A client of a service that has answered just now. Later calls are retried as usual; the first one is not, so that a
 * wrong address is told at once.
 * @throws MartingaleError of code `bad_option` without a key; RequestError if nothing answers there, or no service.
 */
export async function openClient(
  { baseUrl, apiKey, note = toErrors }: ServiceToOpen,
  signal?: AbortSignal,
): Promise<Client> {
  // An empty variable counts as unset.
  if (!apiKey)
    throw new MartingaleError(
      'bad_option',
      `the key of the service at ${baseUrl} is missing: set MARTINGALE_API_KEY or pass --api-key.`,
    );
  const first = createClient({ baseUrl, apiKey, retries: 0 });
  const silence = startTimer(silenceMs, () => note(`No answer from ${baseUrl} yet. Ctrl-C ends the wait.`));
  try {
    await first.health({ signal });
  } catch (error) {
    // What a service refuses here, it may allow for the call that follows.
    if (!isRequestError(error) || isRequestError(error, 'connection_failed', 'bad_response', 'timed_out'))
      throw error;
  } finally {
    silence.clear();
    await first.close();
  }
  return new Client({ baseUrl, apiKey }, true);
}

/** Runs work with a client of a service, and closes it. @throws the errors of `openClient` */
export async function useClient(
  address: ServiceToOpen,
  signal: AbortSignal,
  work: (client: Client) => Promise<void>,
): Promise<void> {
  const client = await openClient(address, signal);
  try {
    await work(client);
  } finally {
    await client.close();
  }
}
