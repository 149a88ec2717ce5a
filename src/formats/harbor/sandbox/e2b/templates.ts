import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ConnectionOpts } from 'e2b';
import { messageOf } from '../../../../util/error.ts';
import { HarborError } from '../../errors.ts';
import type { SandboxImage } from '../sandbox.ts';
import { hashOfFolder, TaskImages } from '../task-images.ts';

type TemplateMaker = typeof import('e2b').Template;

/** Templates of E2B: what Docker calls images, with processors and memory. Made when a task is first run. */
export function e2bTemplates(Template: TemplateMaker, connection: ConnectionOpts): TaskImages {
  /** Their names are taken, but they cannot be used. */
  const failed = new Set<string>();
  return new TaskImages(
    async ({ name, folder, cpus, memoryMb }) => {
      const source = name?.replaceAll(/[^a-z0-9]+/gi, '-').toLowerCase() ?? (await hashOfFolder(folder));
      return `martingale-${source}-${cpus ?? 'x'}cpu-${memoryMb ?? 'x'}mb`;
    },
    async (name, image) => {
      if (!failed.has(name) && (await Template.exists(name, connection))) return;
      const { cpus, memoryMb, buildTimeoutMs } = image;
      const said: string[] = [];
      failed.add(name);
      await Template.build(await templateOf(Template, image), name, {
        ...connection,
        ...(cpus === null ? {} : { cpuCount: Math.ceil(cpus) }),
        ...(memoryMb === null ? {} : { memoryMB: memoryMb + (memoryMb % 2) }),
        signal: AbortSignal.timeout(buildTimeoutMs),
        onBuildLogs: ({ message }) => said.push(message),
      }).catch((cause: unknown) => {
        const why = `${messageOf(cause)}\n${said.slice(-10).join('\n')}`;
        throw new HarborError('sandbox_failed', `E2B could not build ${name}: ${why.slice(0, 1000)}`, {
          cause,
        });
      });
      failed.delete(name);
    },
  );
}

/** As Docker would build it: by root in `/`, unless the Dockerfile says otherwise. */
async function templateOf(Template: TemplateMaker, { name, folder }: SandboxImage) {
  const from = Template({ fileContextPath: folder });
  if (name !== null) return from.fromImage(name).setUser('root').setWorkdir('/');
  const dockerfile = await readFile(join(folder, 'Dockerfile'), 'utf8');
  const lines = dockerfile.split('\n').map((line) => line.trim().split(/\s/)[0]?.toUpperCase());
  const built = from.fromDockerfile(dockerfile);
  const byUser = lines.includes('USER') ? built : built.setUser('root');
  return lines.includes('WORKDIR') ? byUser : byUser.setWorkdir('/');
}
