import { hostname } from 'node:os';
import type { ConnectionOpts, Sandbox } from 'e2b';
import { untilAborted } from '../../../../util/deadline.ts';
import { messageOf } from '../../../../util/error.ts';
import { wholeNumberOption } from '../../../../util/option-error.ts';
import { checkOptionNames, type OptionNames } from '../../../../util/option-names.ts';
import { HarborError } from '../../errors.ts';
import { hasEnded, thisProcess } from '../left-over.ts';
import type { SandboxKind } from '../sandbox.ts';
import { Semaphore } from '../semaphore.ts';
import { E2bSandbox, failed, lifeMs, requestMs } from './open-sandbox.ts';
import { e2bTemplates } from './templates.ts';

export interface E2bSandboxOptions {
  /** Key of E2B. Default: the environment variable `E2B_API_KEY`. */
  apiKey?: string;
  /** Domain of a service of one's own. Default: the environment variable `E2B_DOMAIN`, or E2B's own. */
  domain?: string;
  /** Sandboxes at the same time; further rollouts wait. Default 16. An account of E2B has a limit of its own. */
  maxSandboxes?: number;
}

const names = { apiKey: true, domain: true, maxSandboxes: true } satisfies OptionNames<E2bSandboxOptions>;

/**
 * Sandboxes of E2B (https://e2b.dev), by its package `e2b`, which is to be installed: each rollout has one, of a template
 * made of the task's image or Dockerfile.
 */
export function e2bSandbox(options: E2bSandboxOptions = {}): SandboxKind {
  checkOptionNames('e2bSandbox()', options, names);
  const { maxSandboxes = 16, ...account } = options;
  const connection = { ...account, requestTimeoutMs: requestMs };
  const slots = new Semaphore(wholeNumberOption('invalid_rollout_option', 'maxSandboxes', maxSandboxes, 1));
  const open = async () => {
    const { Sandbox, Template } = await loadE2b();
    await sweep(Sandbox, connection);
    return { Sandbox, templates: e2bTemplates(Template, connection) };
  };
  let opened: ReturnType<typeof open> | undefined;
  return {
    buildsImages: true,
    async check() {
      const { Sandbox } = await loadE2b();
      await Sandbox.list({ ...connection, limit: 1 })
        .nextItems()
        .catch((cause: unknown) => {
          throw new HarborError('sandbox_away', `e2bSandbox() cannot use E2B: ${messageOf(cause)}`, {
            cause,
          });
        });
    },
    async create({ image, env, hasNetwork, workdir, signal }) {
      opened ??= open().catch((cause: unknown) => {
        opened = undefined;
        throw failed('E2B could not be asked for what a killed harness has left', cause);
      });
      const { Sandbox, templates } = await untilAborted(opened, signal);
      const template = await templates.get(image, signal);
      await slots.take(signal);
      const handle = await Sandbox.create(template, {
        ...connection,
        ...{ envs: { ...env }, timeoutMs: lifeMs, allowInternetAccess: hasNetwork, signal },
        metadata: { ...ofThisMachine, process: await thisProcess() },
      }).catch((cause: unknown) => {
        slots.giveBack();
        throw failed(`A sandbox of ${template} could not be made`, cause, signal);
      });
      return await E2bSandbox.open(handle, workdir, signal, () => slots.giveBack());
    },
  };
}

/** @throws HarborError (`sandbox_away`) */
async function loadE2b() {
  return import('e2b').catch((cause: unknown) => {
    const message = 'e2bSandbox() needs the package "e2b": npm install e2b';
    throw new HarborError('sandbox_away', message, { cause });
  });
}

/** By this, E2B finds the sandboxes of this machine. */
const ofThisMachine = { martingale: hostname() };

/** Ends the sandboxes of processes that have ended without doing so, such as killed ones: they count in the account. */
async function sweep(sandboxes: typeof Sandbox, connection: ConnectionOpts): Promise<void> {
  const pages = sandboxes.list({ ...connection, query: { metadata: ofThisMachine } });
  while (pages.hasNext)
    for (const { sandboxId, metadata } of await pages.nextItems())
      if (await hasEnded(metadata.process ?? '')) await sandboxes.kill(sandboxId, connection);
}
