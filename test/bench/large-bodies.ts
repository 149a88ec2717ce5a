import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type LargeBody, largeJob, largeUpload } from '../load/large-bodies.ts';
import { ask, type ChildService, send, startChild } from '../load/large-client.ts';

export interface LargeBodyRow {
  what: string;
  /** Speed of the body, from its first byte to the answer or the end of the job. */
  megabytesPerSecond: number;
  /** Longest tick of the service's event loop. */
  stallMs: number;
  /** Peak memory of the service's process. */
  peakMiB: number;
}

/** Sends bodies of `bytes` bytes to a service in another process, and compares with parsing the same text at once. */
export async function benchLargeBodies(bytes: number): Promise<LargeBodyRow[]> {
  const short = { bytes, tokens: 440, trajectoriesOfGroup: 8 };
  return [
    ...(await inService((child, modelId) => trained(child, largeJob({ modelId, ...short })))),
    ...(await inService((child, modelId) =>
      trained(
        child,
        largeJob({ modelId, bytes, tokens: 50_000, trajectoriesOfGroup: 8 }),
        ', of 50,000 tokens a trajectory',
      ),
    )),
    ...(await inService(async (child, modelId) => {
      const body = largeJob({ modelId, ...short, fields: { split: 'train' } });
      return [await row(child, 'log', body, () => post(child, `/v1/preview/models/${modelId}/log`, body))];
    })),
    ...(await inService(async (child) => {
      const body = largeUpload(bytes, 3000);
      return [await row(child, 'upload', body, () => post(child, '/v1/preview/uploads', body))];
    })),
    parsedWhole(largeJob({ modelId: '', ...short })),
  ];
}

async function inService(
  work: (child: ChildService, modelId: string) => Promise<LargeBodyRow[]>,
): Promise<LargeBodyRow[]> {
  const dataFolder = await mkdtemp(join(tmpdir(), 'martingale-bench-'));
  const child = await startChild({ dataFolder, contextLength: 2 ** 17 });
  try {
    const { body } = await ask(child.url, '/v1/preview/models', {
      ...{ project: 'bench', name: 'bench', base_model: 'scripted-tiny' },
    });
    await ask(child.url, '/v1/chat/completions', {
      ...{ model: 'scripted-tiny', messages: [{ role: 'user', content: 'hi' }] },
    });
    await child.figures();
    return await work(child, idOf(body));
  } finally {
    await child.stop();
    await rm(dataFolder, { recursive: true });
  }
}

async function trained(child: ChildService, body: LargeBody, more = ''): Promise<LargeBodyRow[]> {
  let id = '';
  const accepted = await row(child, `job until it is accepted${more}`, body, async () => {
    id = idOf(await post(child, '/v1/preview/training-jobs', body));
  });
  const ended = await row(child, `its run${more}`, body, async () => {
    const response = await fetch(`${child.url}/v1/preview/training-jobs/${id}/events`, {
      headers: { authorization: 'Bearer test-key', accept: 'text/event-stream' },
    });
    if (!(await response.text()).includes('training_ended')) throw new Error('the job failed');
  });
  return [accepted, ended];
}

async function post(child: ChildService, path: string, body: LargeBody): Promise<unknown> {
  const answer = await send(child.url + path, body);
  if (answer.status !== 200) throw new Error(JSON.stringify(answer));
  return answer.body;
}

async function row(
  child: ChildService,
  what: string,
  body: LargeBody,
  work: () => Promise<unknown>,
): Promise<LargeBodyRow> {
  const began = performance.now();
  await work();
  const ms = performance.now() - began;
  const { stallMs, peakBytes } = await child.figures();
  return { what, megabytesPerSecond: body.bytes / 1e3 / ms, stallMs, peakMiB: peakBytes / 1024 ** 2 };
}

function parsedWhole(body: LargeBody): LargeBodyRow {
  const text = Buffer.concat([...body.pieces()]).toString('utf8');
  const began = performance.now();
  JSON.parse(text);
  const ms = performance.now() - began;
  return {
    ...{ what: 'JSON.parse in one piece, and nothing else', stallMs: ms },
    ...{ megabytesPerSecond: body.bytes / 1e3 / ms, peakMiB: process.resourceUsage().maxRSS / 1024 },
  };
}

function idOf(body: unknown): string {
  if (typeof body !== 'object' || body === null || !('id' in body)) throw new Error(JSON.stringify(body));
  return String(body.id);
}
