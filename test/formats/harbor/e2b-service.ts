import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Context, Hono } from 'hono';
import { stream } from 'hono/streaming';
import { z } from 'zod';
import { listen } from '../../../src/util/listen.ts';
import type { Podman } from './podman.ts';

const run = promisify(execFile);

const stepSchema = z.object({
  type: z.string(),
  args: z.array(z.string()),
  filesHash: z.string().optional(),
});
const buildSchema = z.object({ fromImage: z.string(), steps: z.array(stepSchema) });
const sandboxSchema = z.object({
  templateID: z.string(),
  timeout: z.number(),
  envVars: z.record(z.string(), z.string()),
  metadata: z.record(z.string(), z.string()),
  allow_internet_access: z.boolean(),
});
const startSchema = z.object({
  process: z.object({
    cmd: z.string(),
    args: z.array(z.string()),
    envs: z.record(z.string(), z.string()).default({}),
    cwd: z.string().optional(),
  }),
});

/** A message of a stream of Connect: flags, length, JSON. */
function framed(message: object, flags = 0): Uint8Array {
  const body = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head.writeUInt8(flags, 0);
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
}

const userOf = (context: Context): string[] => {
  const [, basic = ''] = context.req.header('authorization')?.split(' ') ?? [];
  const [name = ''] = Buffer.from(basic, 'base64').toString().split(':');
  const user = name || (context.req.query('username') ?? '');
  return user ? ['--user', user] : [];
};

/**
 * A service that the package `e2b` takes for E2B: its sandboxes are containers, its templates images. It shows what was
 * asked of it, and can refuse.
 */
export async function startE2bService(podman: Podman) {
  const folder = await mkdtemp(join(tmpdir(), 'martingale-e2b-'));
  const templates = new Map<string, string>();
  const sandboxes = new Map<string, z.output<typeof sandboxSchema>>();
  const state = {
    /** What was built, as lines of a Dockerfile. */
    builds: [] as string[],
    /** Sandboxes that were asked for. */
    asked: [] as z.output<typeof sandboxSchema>[],
    /** Times for which sandboxes were asked to live on, in seconds. */
    lives: [] as number[],
    /** Answer to each request for a sandbox. */
    refusal: undefined as { status: 401 | 429 | 500; message: string } | undefined,
    failsBuilds: false,
  };
  const app = new Hono();
  app.use(async (context, next) => {
    const isOfSandbox = context.req.header('e2b-sandbox-id') !== undefined;
    if (isOfSandbox || context.req.path.startsWith('/upload/')) return next();
    if (context.req.header('x-api-key') === 'mine') return next();
    return context.json({ code: 401, message: 'Invalid API key' }, 401);
  });

  app.get('/v2/sandboxes', (context) => {
    const wanted = [...new URLSearchParams(context.req.query('metadata'))];
    const found = [...sandboxes].filter(([, { metadata }]) =>
      wanted.every(([name, value]) => metadata[name] === value),
    );
    return context.json(
      found.map(([sandboxID, { templateID, metadata }]) => ({
        sandboxID,
        templateID,
        metadata,
        state: 'running',
      })),
    );
  });
  app.post('/v2/sandboxes', async (context) => {
    if (state.refusal) {
      const { status, message } = state.refusal;
      return context.json({ code: status, message }, status);
    }
    const asked = sandboxSchema.parse(await context.req.json());
    const image = templates.get(asked.templateID);
    if (!image) return context.json({ code: 404, message: `template '${asked.templateID}' not found` }, 404);
    const sandboxID = `sandbox${state.asked.push(asked)}`;
    const env = Object.entries(asked.envVars).flatMap(([name, value]) => ['--env', `${name}=${value}`]);
    await run(podman.program, [
      'run',
      '--detach',
      '--name',
      sandboxID,
      ...env,
      '--entrypoint',
      'sleep',
      image,
      'infinity',
    ]);
    sandboxes.set(sandboxID, asked);
    return context.json(
      { sandboxID, templateID: asked.templateID, envdVersion: '0.6.4', clientID: 'x' },
      201,
    );
  });
  app.post('/sandboxes/:id/timeout', async (context) => {
    const { timeout } = z.object({ timeout: z.number() }).parse(await context.req.json());
    state.lives.push(timeout);
    return context.body(null, 204);
  });
  const end = async (id: string) => {
    if (!sandboxes.delete(id)) return false;
    await run(podman.program, ['rm', '--force', '--time', '0', id]);
    return true;
  };
  app.delete('/sandboxes/:id', async (context) =>
    (await end(context.req.param('id')))
      ? context.body(null, 204)
      : context.json({ code: 404, message: 'not found' }, 404),
  );

  app.get('/templates/aliases/:alias', (context) => {
    const alias = context.req.param('alias');
    if (!templates.has(alias)) return context.json({ code: 404, message: 'not found' }, 404);
    return context.json({ templateID: alias, public: false });
  });
  app.post('/v3/templates', async (context) => {
    const { name } = z.object({ name: z.string() }).parse(await context.req.json());
    return context.json(
      { templateID: name, buildID: '1', names: [name], tags: [], aliases: [], public: false },
      202,
    );
  });
  app.get('/templates/:id/files/:hash', (context) => {
    const url = new URL(`/upload/${context.req.param('hash')}`, context.req.url).href;
    return context.json({ present: false, url }, 201);
  });
  app.put('/upload/:hash', async (context) => {
    const at = join(folder, context.req.param('hash'));
    await mkdir(at, { recursive: true });
    await writeFile(`${at}.tar.gz`, Buffer.from(await context.req.arrayBuffer()));
    await run('tar', ['-C', at, '-xzf', `${at}.tar.gz`]);
    return context.body(null, 200);
  });
  app.post('/v2/templates/:id/builds/:build', async (context) => {
    const name = context.req.param('id');
    const { fromImage, steps } = buildSchema.parse(await context.req.json());
    const lines = steps.map(({ type, args, filesHash }) => {
      const [first, second] = args;
      if (type === 'COPY') return `COPY ${filesHash}/${first} ${second}`;
      if (type === 'ENV') return `ENV ${first}="${second}"`;
      return `${type} ${first}`;
    });
    const dockerfile = [`FROM ${fromImage}`, ...lines, ''].join('\n');
    state.builds.push(dockerfile.replaceAll(/[0-9a-f]{64}\//g, ''));
    await writeFile(join(folder, 'Dockerfile'), dockerfile);
    templates.set(name, '');
    if (!state.failsBuilds) {
      await run(podman.program, ['build', '--tag', `e2b-${name}`, folder]);
      templates.set(name, `e2b-${name}`);
    }
    return context.body(null, 202, { 'content-length': '0' });
  });
  app.get('/templates/:id/builds/:build/status', (context) => {
    const templateID = context.req.param('id');
    const status = state.failsBuilds ? 'error' : 'ready';
    const reason = state.failsBuilds ? { message: 'no such package' } : undefined;
    return context.json({ templateID, buildID: '1', status, logEntries: [], logs: [], reason });
  });

  app.get('/health', (context) => {
    const isThere = sandboxes.has(context.req.header('e2b-sandbox-id') ?? '');
    return context.body(null, isThere ? 204 : 502);
  });
  app.post('/files', async (context) => {
    const file = (await context.req.formData()).get('file');
    const path = context.req.query('path') ?? '';
    const name = context.req.header('e2b-sandbox-id') ?? '';
    const args = ['exec', '--interactive', ...userOf(context), name, 'bash', '-c', `cat > ${path}`];
    const child = spawn(podman.program, args);
    child.stdin.end(file instanceof Blob ? Buffer.from(await file.arrayBuffer()) : '');
    await once(child, 'close');
    return context.json([{ name: path, path, type: 'file' }]);
  });
  app.post('/process.Process/Start', async (context) => {
    const name = context.req.header('e2b-sandbox-id') ?? '';
    const body = Buffer.from(await context.req.arrayBuffer()).subarray(5);
    const { cmd, args, envs, cwd } = startSchema.parse(JSON.parse(body.toString())).process;
    const child = spawn(podman.program, [
      'exec',
      ...userOf(context),
      ...(cwd === undefined ? [] : ['--workdir', cwd]),
      ...Object.entries(envs).flatMap(([key, value]) => ['--env', `${key}=${value}`]),
      ...[name, cmd, ...args],
    ]);
    context.header('content-type', 'application/connect+json');
    return stream(context, async (answer) => {
      const send = (event: object) => answer.write(framed({ event }));
      await send({ start: { pid: child.pid } });
      child.stdout.on('data', (chunk: Buffer) => void send({ data: { stdout: chunk.toString('base64') } }));
      child.stderr.on('data', (chunk: Buffer) => void send({ data: { stderr: chunk.toString('base64') } }));
      const [exitCode] = await once(child, 'close');
      if (!sandboxes.has(name)) return answer.abort();
      await send({ end: { exitCode, exited: true, status: `exit status ${exitCode}` } });
      await answer.write(framed({}, 2));
    });
  });

  const { url, close } = await listen(app, { host: '127.0.0.1', port: 0 });
  return {
    ...{ url, state, sandboxes, end },
    async close() {
      await close();
      for (const id of sandboxes.keys()) await end(id);
      await rm(folder, { recursive: true, force: true });
    },
  };
}
