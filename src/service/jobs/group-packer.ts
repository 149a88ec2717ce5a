import type { SharedLanguage } from '../../language/index.ts';
import type { Caller } from '../../util/fair-queue.ts';
import { contentOf, forThread, type ReceivedBody } from '../bodies/bodies.ts';
import { readText } from '../json/read-text.ts';
import { ReadingThread } from '../reading-thread.ts';
import { groupText, type PackedGroup, type PackGroupContext, packGroup } from './pack-group.ts';
import type { PackTask } from './pack-thread.ts';

const threadModule = new URL(
  `./pack-thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`,
  import.meta.url,
);

/**
 * Reads groups in a thread for each base model whose language can be shared, one at a time, with tenants alternating.
 * Those of other models are tokenized here, in time slices. A thread starts when it is needed, and again after it has ended.
 */
export class GroupPacker {
  readonly #languageOf: (baseModel: string) => SharedLanguage | undefined;
  readonly #threads = new Map<string, ReadingThread<PackTask, PackedGroup>>();

  /** @param languageOf `sharedLanguage` of the engine. */
  constructor(languageOf: (baseModel: string) => SharedLanguage | undefined) {
    this.#languageOf = languageOf;
  }

  /** @throws what `packGroup` does; ServiceError `group_too_large`, or `groups_busy` if too many wait. */
  async pack(body: ReceivedBody, context: PackGroupContext, caller: Caller): Promise<PackedGroup> {
    const { base, engine, constraints } = context;
    let thread = this.#threads.get(base.id);
    if (!thread) {
      const workerData = this.#languageOf(base.id);
      if (workerData === undefined) {
        const content = await contentOf(body);
        return packGroup(content, await readText(groupText, content), context);
      }
      const name = { one: 'group', many: 'groups' };
      thread = new ReadingThread({ module: threadModule, workerData, name });
      this.#threads.set(base.id, thread);
    }
    const { logitsProcessors } = engine;
    const answer = async (hash: unknown) => (await constraints.find(String(hash))) !== undefined;
    return thread.run({ body: forThread(body), base, logitsProcessors }, body.bytes, { caller, answer });
  }

  /** Ends the threads. */
  async close(): Promise<void> {
    await Promise.all([...this.#threads.values()].map((thread) => thread.close()));
  }
}
