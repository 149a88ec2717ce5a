import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { onTestFinished } from 'vitest';
import { startServer } from '../../../support/http-server.ts';

/** A server with the routes of the Hugging Face hub that fetching a model needs. */
export interface HubServer {
  url: string;
  /** Ranges of file contents that were sent: `config.json 0-778`. */
  sent: string[];
  /** Bytes after which the connection of the next contents is cut, one entry for each. Negative: it falls silent. */
  cuts: number[];
  /** Sends other bytes in place of a file's own. */
  replace: Map<string, Buffer>;
  close(): Promise<void>;
}

export const commit = 'c0ffee'.padEnd(40, '0');

/** @param token That requests must have. */
export async function hubServer(
  files: ReadonlyMap<string, Buffer>,
  { name, token }: { name: string; token?: string },
): Promise<HubServer> {
  const hub: Omit<HubServer, 'url' | 'close'> = { sent: [], cuts: [], replace: new Map() };
  const json = (response: ServerResponse, status: number, value: unknown) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  };
  function answer(request: IncomingMessage, response: ServerResponse): void {
    const { pathname } = new URL(request.url ?? '/', 'http://hub');
    const contents = `/${name}/resolve/${commit}/`;
    const path = pathname.startsWith(contents) ? pathname.slice(contents.length) : '';
    const content = hub.replace.get(path) ?? files.get(path);
    if (token !== undefined && request.headers.authorization !== `Bearer ${token}`)
      json(response, 401, { error: 'Access to this model is restricted' });
    else if (pathname === `/api/models/${name}/revision/main`)
      json(response, 200, { id: name, sha: commit, private: false, likes: 0, downloads: 0 });
    else if (pathname === `/api/models/${name}/tree/${commit}`) json(response, 200, tree(files));
    else if (content) sendContent(request, response, { path, content });
    else json(response, 404, { error: 'Repository or revision not found' });
  }
  function sendContent(
    request: IncomingMessage,
    response: ServerResponse,
    { path, content }: { path: string; content: Buffer },
  ): void {
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
    const start = Number(from ?? 0);
    const end = Math.min(Number(to ?? content.length - 1), content.length - 1);
    response.writeHead(from === undefined ? 200 : 206, {
      'content-length': end - start + 1,
      etag: '"1"',
      ...(from !== undefined && { 'content-range': `bytes ${start}-${end}/${content.length}` }),
    });
    // The client asks for the first byte to learn the size.
    if (request.headers.range === 'bytes=0-0') return void response.end(content.subarray(0, 1));
    hub.sent.push(`${path} ${start}-${end}`);
    const cut = hub.cuts.shift();
    if (cut === undefined) return void response.end(content.subarray(start, end + 1));
    response.write(content.subarray(start, start + Math.abs(cut)), () => {
      if (cut >= 0) response.destroy();
    });
  }
  const { url, close } = await startServer(answer);
  onTestFinished(close);
  return Object.assign(hub, { url, close });
}

function tree(files: ReadonlyMap<string, Buffer>): unknown[] {
  const hash = (algorithm: string, ...parts: (string | Buffer)[]) =>
    parts.reduce((sum, part) => sum.update(part), createHash(algorithm)).digest('hex');
  return Array.from(files, ([path, content]) => ({
    type: 'file',
    path,
    size: content.length,
    oid: hash('sha1', `blob ${content.length}\0`, content),
    ...(path.endsWith('.safetensors') && {
      lfs: { oid: hash('sha256', content), size: content.length, pointerSize: 130 },
    }),
  }));
}
