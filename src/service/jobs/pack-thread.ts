/** Reads groups in a thread: the groups of one base model, one at a time. */
import { workerData } from 'node:worker_threads';
import { ConversationRenderer, openLanguage, type SharedLanguage } from '../../language/index.ts';
import { type ThreadBody, threadContent } from '../bodies/bodies.ts';
import { workOff } from '../reading-thread.ts';
import { groupText, type PackedGroup, type PackGroupContext, packGroup } from './pack-group.ts';

/** A group to read. The thread asks for the hashes of constraints. */
export interface PackTask {
  body: ThreadBody;
  base: PackGroupContext['base'];
  logitsProcessors: readonly string[];
}

const { tokenizer, format } = openLanguage(workerData satisfies SharedLanguage);
const tools = { format, renderer: new ConversationRenderer(tokenizer, format) };

workOff<PackTask, PackedGroup>(async ({ body, base, logitsProcessors }, ask) => {
  const content = threadContent(body);
  const constraints = { find: async (hash: string) => ((await ask(hash)) ? hash : undefined) };
  const context = { base, tools, engine: { logitsProcessors }, constraints };
  const done = await packGroup(content, groupText.read(content), context);
  return { done, buffers: [done.content.buffer] };
});
