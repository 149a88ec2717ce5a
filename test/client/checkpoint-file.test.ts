import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { temporaryFolder } from '../support/files.ts';
import { type Answerer, json, serve, uuid } from './server.ts';

const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, index) => index % 251));

const sends =
  (body: Uint8Array, headers: Record<string, string> = {}): Answerer =>
  (response) => {
    response.writeHead(200, { 'content-type': 'application/octet-stream', ...headers });
    response.end(body);
  };
const whole = sends(bytes, { 'content-length': String(bytes.length) });
/** Sends its length, and breaks within the body. */
const cut: Answerer = (response) => {
  response.writeHead(200, { 'content-length': String(bytes.length) });
  response.write(bytes.subarray(0, 500), () => response.destroy());
};

async function folder(): Promise<string> {
  const temporary = await temporaryFolder();
  return temporary;
}

const read = async (stream: AsyncIterable<Uint8Array>) => {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
};

describe('checkpoints.download', () => {
  it('returns the bytes, their number and the file name from the service', async () => {
    const named = { 'content-disposition': 'attachment; filename="desk-step3.safetensors"' };
    const { client, received } = await serve(sends(bytes, { 'content-length': '100000', ...named }));
    const file = await client.models.checkpoints.download(uuid(1), 3);
    expect(file).toMatchObject({ fileName: 'desk-step3.safetensors', bytes: 100_000 });
    expect((await read(file.stream)).equals(bytes)).toBe(true);
    expect(received[0]).toMatchObject({ url: `/v1/preview/models/${uuid(1)}/checkpoints/3/download` });
    expect(received[0]?.headers['content-type']).toBe('application/json');
  });

  it.each([
    ['none', undefined, `${uuid(1)}-step0.safetensors`],
    ['one that climbs', 'attachment; filename="../../etc/passwd"', 'passwd'],
    ['one that is hidden', 'attachment; filename=".bashrc"', `${uuid(1)}-step0.safetensors`],
    ['one without quotes', 'attachment; filename=a.bin; size=3', 'a.bin'],
  ])('creates a safe file name if the service sends %s', async (_, disposition, expected) => {
    const { client } = await serve(
      disposition ? sends(bytes, { 'content-disposition': disposition }) : sends(bytes),
    );
    const file = await client.models.checkpoints.download(uuid(1), 0);
    await read(file.stream);
    expect(file).toMatchObject({ fileName: expected, bytes: null });
  });

  it('throws from the stream if the connection breaks', async () => {
    const { client } = await serve(cut);
    const { stream } = await client.models.checkpoints.download(uuid(1), 0);
    await expect(read(stream)).rejects.toMatchObject({ code: 'connection_failed', connected: true });
  });

  it('ends with the signal’s reason and closes the connection', async () => {
    const closed = Promise.withResolvers<void>();
    const { client } = await serve((response) => {
      response.on('close', () => closed.resolve());
      response.writeHead(200, { 'content-length': '9' });
      response.write('abc');
    });
    const controller = new AbortController();
    const { signal } = controller;
    const { stream } = await client.models.checkpoints.download(uuid(1), 0, { signal });
    const reason = new Error('enough');
    const reading = async () => {
      for await (const _chunk of stream) controller.abort(reason);
    };
    await expect(reading()).rejects.toBe(reason);
    await closed.promise;
  });
});

describe('checkpoints.downloadTo', () => {
  it('replaces the file and leaves no other file', async () => {
    const target = await folder();
    const file = join(target, 'weights.safetensors');
    await writeFile(file, 'before');
    const { client } = await serve(whole);
    const written = await client.models.checkpoints.downloadTo(uuid(1), 2, file);
    expect(written).toEqual({ file, bytes: bytes.length });
    expect((await readFile(file)).equals(bytes)).toBe(true);
    expect(await readdir(target)).toEqual(['weights.safetensors']);
  });

  it('restarts a download that breaks', async () => {
    const file = join(await folder(), 'weights');
    const { client, received } = await serve(cut, json({ detail: 'not now' }, 503), whole);
    await client.models.checkpoints.downloadTo(uuid(1), 2, file);
    expect((await readFile(file)).equals(bytes)).toBe(true);
    expect(received).toHaveLength(3);
  });

  it.each([
    ['it always breaks', cut, 'connection_failed', 3],
    ['there is no such checkpoint', json({ detail: 'no step 9' }, 404), 'not_found', 1],
  ])('keeps the old file and leaves no other file if %s', async (_, answer, code, attempts) => {
    const target = await folder();
    const file = join(target, 'weights');
    await writeFile(file, 'before');
    const { connect, received } = await serve(answer);
    const download = connect({ retries: 2 }).models.checkpoints.downloadTo(uuid(1), 9, file);
    await expect(download).rejects.toMatchObject({ code });
    expect(received).toHaveLength(attempts);
    expect(await readFile(file, 'utf8')).toBe('before');
    expect(await readdir(target)).toEqual(['weights']);
  });

  it('sends no request if the file cannot be written', async () => {
    const { client, received } = await serve(whole);
    const file = join(await folder(), 'missing', 'weights');
    await expect(client.models.checkpoints.downloadTo(uuid(1), 0, file)).rejects.toMatchObject({
      code: 'ENOENT',
    });
    expect(received).toHaveLength(0);
  });
});
