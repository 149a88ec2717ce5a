import type { SandboxImage } from '../sandbox.ts';
import { hashOfFolder, TaskImages } from '../task-images.ts';
import type { Docker } from './program.ts';

/** Images of Docker, pulled or built when a task is first run. */
export function dockerImages(docker: Docker): TaskImages {
  return new TaskImages(
    async ({ name, folder }) => name ?? `martingale-task:${await hashOfFolder(folder)}`,
    async (name, image) => {
      const found = await docker.run(['image', 'inspect', name], { signal: never });
      if (found.exitCode !== 0)
        await docker.must(making(name, image), { timeoutMs: image.buildTimeoutMs, signal: never });
    },
  );
}

const never = new AbortController().signal;

const making = (name: string, image: SandboxImage): string[] =>
  image.name === null ? ['build', '--tag', name, image.folder] : ['pull', name];
