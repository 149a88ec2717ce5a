import { statfs } from 'node:fs/promises';
import { createServer } from 'node:net';
import { dirname, resolve } from 'node:path';
import { performance } from 'node:perf_hooks';
import { request } from 'undici';
import type { Client } from '../../client/index.ts';
import { counted } from '../../progress/index.ts';
import { hasCode, messageOf } from '../../util/error.ts';
import { startListening } from '../../util/http-server.ts';
import { findModel } from '../find-model.ts';
import { openClient } from '../open-client.ts';
import { gigabytes } from './needs.ts';

/** What was found of the machine's surroundings. */
export interface Check {
  name: 'disk' | 'data' | 'port' | 'service' | 'clock' | 'model' | 'tracing';
  isWell: boolean;
  text: string;
}

export interface CheckOptions {
  /** Folder of models, checkpoints and jobs. */
  data: string;
  port: number;
  baseUrl?: string | undefined;
  apiKey?: string | undefined;
  /** A model of that service to ask for one token. */
  model?: string | undefined;
  /** Environment variables. */
  env: Readonly<Record<string, string | undefined>>;
}

const leastDiskBytes = 1e9;
const maxClockSeconds = 30;
const answerMs = 10_000;

/** Checks what a run needs besides this machine: each check says what it found, and none throws. */
export async function checkSurroundings(options: CheckOptions): Promise<Check[]> {
  return [
    await checkDisk(options.data),
    ...(await checkRecords(options.data)),
    await checkPort(options.port),
    ...(await checkService(options)),
    await checkTracing(options.env),
  ];
}

/** The folder need not exist yet: its nearest parent counts. */
async function checkDisk(data: string): Promise<Check> {
  for (let folder = resolve(data); ; folder = dirname(folder))
    try {
      const { bavail, bsize } = await statfs(folder);
      const free = bavail * bsize;
      const text = `${gigabytes(free)} free for ${resolve(data)}`;
      return free < leastDiskBytes
        ? { name: 'disk', isWell: false, text: `only ${text}: free some, or name another folder with --data` }
        : { name: 'disk', isWell: true, text };
    } catch (error) {
      if (!hasCode(error, 'ENOENT') || folder === dirname(folder))
        return { name: 'disk', isWell: false, text: `${resolve(data)} cannot be read: ${messageOf(error)}` };
    }
}

const maxShown = 10;

/** The records of a data folder and the files that they name. */
async function checkRecords(data: string): Promise<Check[]> {
  const { checkData } = await import('../../service/index.ts');
  try {
    const report = await checkData(data);
    if (report === null) return [];
    const { models, checkpoints, problems } = report;
    const more = problems.length > maxShown ? [`and ${problems.length - maxShown} more`] : [];
    const text =
      problems.length === 0
        ? `${counted(models, 'model')} with ${counted(checkpoints, 'checkpoint')}, all there`
        : `${[...problems.slice(0, maxShown), ...more].join('; ')}. Restore a backup, or let --repair make records anew if the database is lost`;
    return [{ name: 'data', isWell: problems.length === 0, text }];
  } catch (error) {
    return [{ name: 'data', isWell: false, text: `${resolve(data)} cannot be checked: ${messageOf(error)}` }];
  }
}

async function checkPort(port: number): Promise<Check> {
  const server = createServer();
  try {
    await startListening(server, { port, host: '127.0.0.1' });
    return { name: 'port', isWell: true, text: `${port} is free on 127.0.0.1` };
  } catch (error) {
    const inUse = hasCode(error, 'EADDRINUSE');
    const text = inUse
      ? `${port} is in use on 127.0.0.1: pass another --port to serve, or use the service that is there`
      : `${port} cannot be used on 127.0.0.1: ${messageOf(error)}`;
    // A service that runs already is no fault.
    return { name: 'port', isWell: inUse, text };
  } finally {
    server.close();
  }
}

async function checkService({ baseUrl, apiKey, model }: CheckOptions): Promise<Check[]> {
  if (baseUrl === undefined) return [];
  const signal = AbortSignal.timeout(answerMs);
  let client: Client | undefined;
  try {
    const started = performance.now();
    client = await openClient({ baseUrl, apiKey }, signal);
    const ms = Math.round(performance.now() - started);
    const known = await client.models.baseModels({ signal });
    const trains = known.length > 0 ? known.join(', ') : 'no base model';
    return [
      {
        name: 'service',
        isWell: true,
        text: `${baseUrl} answers after ${ms} ms, the key is good; it trains ${trains}`,
      },
      await checkClock(baseUrl, apiKey ?? ''),
      ...(model === undefined ? [] : [await checkModel(client, model)]),
    ];
  } catch (error) {
    const text = signal.aborted ? `no answer within ${answerMs / 1000} s` : messageOf(error);
    return [{ name: 'service', isWell: false, text: `${baseUrl}: ${text}` }];
  } finally {
    await client?.close();
  }
}

async function checkModel(client: Client, asked: string): Promise<Check> {
  const signal = AbortSignal.timeout(answerMs);
  try {
    const { name } = await findModel(client, asked, signal);
    const messages = [{ role: 'user' as const, content: 'hello' }];
    const body = { model: name, messages, max_completion_tokens: 1 };
    const { model } = await client.chat.completions.create(body, { signal });
    return { name: 'model', isWell: true, text: `${model} answers` };
  } catch (error) {
    const text = signal.aborted ? `${asked} does not answer within ${answerMs / 1000} s` : messageOf(error);
    return { name: 'model', isWell: false, text };
  }
}

/** Times of a run come from this machine, times of a job from the service. */
async function checkClock(baseUrl: string, apiKey: string): Promise<Check> {
  const { headers, body } = await request(`${baseUrl.replace(/\/$/, '')}/v1/health`, {
    headers: { authorization: `Bearer ${apiKey}` },
    signal: AbortSignal.timeout(answerMs),
  });
  await body.dump();
  const theirs = Date.parse(String(headers.date ?? ''));
  if (Number.isNaN(theirs))
    return { name: 'clock', isWell: true, text: 'the service does not tell its time' };
  const seconds = Math.round((Date.now() - theirs) / 1000);
  const text = `this machine is ${Math.abs(seconds)} s ${seconds < 0 ? 'behind' : 'ahead of'} the service`;
  return { name: 'clock', isWell: Math.abs(seconds) <= maxClockSeconds, text };
}

/** Whether the collector of OpenTelemetry's own variables takes an empty batch of spans. */
async function checkTracing(env: CheckOptions['env']): Promise<Check> {
  const own = env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT;
  const shared = env.OTEL_EXPORTER_OTLP_ENDPOINT;
  const url = own ?? (shared === undefined ? undefined : `${shared.replace(/\/$/, '')}/v1/traces`);
  if (url === undefined)
    return {
      name: 'tracing',
      isWell: true,
      text: 'OTEL_EXPORTER_OTLP_ENDPOINT is not set: spans go nowhere',
    };
  try {
    const { statusCode, body } = await request(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"resourceSpans":[]}',
      signal: AbortSignal.timeout(answerMs),
    });
    await body.dump();
    const isWell = statusCode < 300;
    return { name: 'tracing', isWell, text: `${url} answers an empty batch of spans with ${statusCode}` };
  } catch (error) {
    return { name: 'tracing', isWell: false, text: `${url} cannot be reached: ${messageOf(error)}` };
  }
}
