import { type Command, Option } from 'commander';
import type { Client } from '../../client/index.ts';
import { serviceUrl } from '../flags.ts';
import { useClient } from '../open-client.ts';
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
  const interrupt = listenForInterrupt({ limitMs: 5000, onFirst: () => {}, onEarlyExit: () => {} });
  const { signal } = interrupt;
  try {
    await useClient({ baseUrl, apiKey }, signal, (client) => work(client, signal));
  } catch (error) {
    if (interrupt.status === undefined) throw error;
  } finally {
    if (interrupt.status !== undefined) process.exitCode = interrupt.status;
    interrupt.release();
  }
}

export const print = (text: string): void => void process.stdout.write(text);
