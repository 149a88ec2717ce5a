/** Reads long texts in a thread. */
import { groupText } from './jobs/pack-group.ts';
import { trajectoryText } from './jobs/packed-trajectories.ts';
import { exampleText } from './jobs/sft-job.ts';
import { toolTexts } from './json/exact-tools.ts';
import { toPieces } from './json/pieces.ts';
import { jsonText, type TextRead, type TextTask } from './json/read-text.ts';
import { workOff } from './reading-thread.ts';
import { chatText } from './routes/chat-request.ts';

const kinds = new Map(
  [jsonText, chatText, exampleText, groupText, trajectoryText].map(({ name, read }) => [
    name,
    read as (content: Buffer) => unknown,
  ]),
);

workOff<TextTask, TextRead>(async ({ kind, content }) => {
  const read = kinds.get(kind);
  if (!read) throw new Error(`no text is read as ${kind}`);
  const value = read(Buffer.from(content.buffer, content.byteOffset, content.byteLength));
  const pieces = toPieces(value);
  return { done: { pieces, tools: toolTexts(value) }, buffers: pieces.map(({ buffer }) => buffer) };
});
