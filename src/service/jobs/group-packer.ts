import type { SharedLanguage } from '../../language/chat/read-language.ts';
import { TaskThread } from '../../language/task-thread.ts';
import type { Refusal } from '../../util/fair-mutex.ts';
import type { Caller } from '../../util/fair-queue.ts';
import { contentOf, type ReceivedBody } from '../bodies/bodies.ts';
import { RequestValidationError, ServiceError } from '../errors.ts';
import { type PackedGroup, type PackGroupContext, packGroup } from './pack-group.ts';
import type { PackReport, PackTask } from './pack-thread.ts';

/** Processor time that one group may take, in milliseconds: 60 MB take about two seconds. */
const timeoutMs = 60_000;
/** A large vocabulary takes some 300 MB, and the largest body about 3 GB. */
const heapMegabytes = 4096;

/**
 * Reads groups in a thread for each base model whose language can be shared, one at a time, with tenants alternating;
 * those of other models in time slices. A thread starts when it is needed, and again after it has ended.
 */
export class GroupPacker {
  readonly #languageOf: (baseModel: string) => SharedLanguage | undefined;
  readonly #threads = new Map<string, GroupThread>();

  /** @param languageOf `sharedLanguage` of the engine. */
  constructor(languageOf: (baseModel: string) => SharedLanguage | undefined) {
    this.#languageOf = languageOf;
  }

  /** @throws what `packGroup` does; ServiceError `groups_busy` if too many wait. */
  async pack(body: ReceivedBody, context: PackGroupContext, caller: Caller): Promise<PackedGroup> {
    const { id } = context.base;
    let thread = this.#threads.get(id);
    if (!thread) {
      const language = this.#languageOf(id);
      if (language === undefined) return packGroup(body.source, context);
      thread = new GroupThread(language);
      this.#threads.set(id, thread);
    }
    return thread.pack(await contentOf(body), context, caller);
  }

  /** Ends the threads. */
  async close(): Promise<void> {
    await Promise.all([...this.#threads.values()].map((thread) => thread.close()));
  }
}

class GroupThread {
  readonly #thread: TaskThread<PackTask, PackReport>;

  constructor(language: SharedLanguage) {
    const limits = { timeoutMs, heapMegabytes, maxWaiting: 4096, refusal: busy };
    this.#thread = new TaskThread({ module: threadModule, workerData: language, ...limits });
  }

  async pack(body: Uint8Array, context: PackGroupContext, caller: Caller): Promise<PackedGroup> {
    const { base, engine, constraints } = context;
    const { logitsProcessors } = engine;
    const send = (unknownConstraints: string[]) =>
      this.#send({ body, base, logitsProcessors, unknownConstraints }, caller);
    const { packed, constraints: named } = await send([]);
    const unknown: string[] = [];
    for (const hash of named) if (!(await constraints.find(hash))) unknown.push(hash);
    // Read again only for the error that names the field.
    return unknown.length === 0 ? packed : (await send(unknown)).packed;
  }

  close(): Promise<void> {
    return this.#thread.close();
  }

  async #send(task: PackTask, caller: Caller): Promise<Extract<PackReport, { type: 'packed' }>> {
    const result = await this.#thread.run(task, caller);
    if (result.type === 'unstarted') throw unavailable('The thread that reads groups did not start.');
    if (result.type === 'starved') throw unavailable('The machine is too busy to read a group.');
    if (result.type !== 'message')
      throw new ServiceError(
        413,
        'group_too_large',
        `Reading the group of ${task.body.length} bytes takes more than ${timeoutMs} ms or ${heapMegabytes} MB. Send fewer or shorter trajectories.`,
      );
    return packedOf(result.message);
  }
}

function packedOf(report: PackReport): Extract<PackReport, { type: 'packed' }> {
  if (report.type === 'packed') return report;
  if (report.type !== 'refused') throw new Error(report.type === 'failed' ? report.message : report.type);
  const { refusal, issues } = report;
  throw issues
    ? new RequestValidationError(issues)
    : new ServiceError(refusal.status, refusal.code, refusal.message);
}

const threadModule = new URL(
  `./pack-thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`,
  import.meta.url,
);

const unavailable = (message: string) => new ServiceError(503, 'groups_busy', `${message} Try again.`);

const busy = (why: Refusal) =>
  unavailable(
    why === 'share_full'
      ? 'Too many groups of this key wait to be read.'
      : 'Too many groups wait to be read.',
  );
