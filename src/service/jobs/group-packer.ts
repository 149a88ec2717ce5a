import type { SharedLanguage } from '../../language/index.ts';
import type { Caller } from '../../util/fair-queue.ts';
import { contentOf, forThread, type ReceivedBody, type ThreadBody } from '../bodies/bodies.ts';
import { readText } from '../json/read-text.ts';
import { ReadingThread } from '../reading-thread.ts';
import { groupText, type PackedGroup, type PackGroupContext, packGroup } from './pack-group.ts';

/** A group to read. The thread asks whether the hashes of constraints are known. */
export interface GroupTask {
  body: ThreadBody;
  base: PackGroupContext['base'];
  logitsProcessors: readonly string[];
}

/**
 * Reads groups in a thread for each base model whose language can be shared, one at a time, with tenants alternating.
 * Groups of other models are tokenized in this thread, in time slices. A thread starts when it is needed, and again after
 * it has ended.
 */
export class GroupPacker {
  readonly #languageOf: (baseModel: string) => SharedLanguage | undefined;
  readonly #threads = new Map<string, ReadingThread<GroupTask, PackedGroup>>();

  /** @param languageOf `sharedLanguage` of the engine. */
  constructor(languageOf: (baseModel: string) => SharedLanguage | undefined) {
    this.#languageOf = languageOf;
  }

  /** @throws what `packGroup` does; ServiceError `group_too_large`, or `groups_busy` if too many wait. */
  async pack(body: ReceivedBody, context: PackGroupContext, caller: Caller): Promise<PackedGroup> {
    const { base, engine, constraints } = context;
    let thread = this.#threads.get(base.id);
    if (!thread) {
      const language = this.#languageOf(base.id);
      if (language === undefined) {
        const content = await contentOf(body);
        return packGroup(content, await readText(groupText, content), context);
      }
      thread = new ReadingThread('group', language);
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
