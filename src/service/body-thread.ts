/** Reads large bodies with groups in a thread, one at a time. */
import { threadContent } from './bodies/bodies.ts';
import {
  type BodyQuestion,
  type BodyTask,
  type CheckedAgainst,
  type PackedBody,
  packHere,
} from './jobs/pack-body.ts';
import { toPieces } from './json/pieces.ts';
import { workOff } from './reading-thread.ts';

workOff<BodyTask, PackedBody | null>(async ({ body, ...options }, ask) => {
  const answerTo = (question: BodyQuestion) => ask(question);
  const packed = await packHere(threadContent(body), options, async (fields) => {
    const against = (await answerTo({ fields: toPieces(fields) })) as CheckedAgainst;
    return (
      against && {
        base: against.base,
        engine: { logitsProcessors: against.logitsProcessors },
        constraints: { find: async (hash) => ((await answerTo({ hash })) ? hash : undefined) },
      }
    );
  });
  // Its trajectories would have to be copied; the job reads them from its file.
  return packed
    ? { done: { ...packed, parts: null }, buffers: [packed.content.buffer] }
    : { done: null, buffers: [] };
});
