import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Hono } from 'hono';
import type { Upload } from '../../contract/index.ts';
import type { ServiceContext } from '../context.ts';
import { RequestValidationError } from '../errors.ts';
import { readExample } from '../jobs/sft-job.ts';
import { answerOnce } from './answers.ts';

/** Lines checked before the requests of others get their turn. */
const linesAtATime = 200;

export function uploadRoutes(app: Hono, service: ServiceContext): void {
  const { store, files } = service;

  app.post('/v1/preview/uploads', (context) =>
    answerOnce(service, context, async (body) => {
      const sha256 = createHash('sha256').update(body).digest('hex');
      const bytes = Buffer.byteLength(body);
      if ((await store.upload(sha256)) === undefined) {
        const examples = await countExamples(body);
        await files.writeUpload(sha256, body);
        await store.putUpload({ sha256, bytes, examples });
      }
      const upload: Upload = { id: `sha256-${sha256}`, url: `upload:sha256-${sha256}`, sha256, bytes };
      return { status: 200, body: upload, modelId: null };
    }),
  );
}

/** Checks every line before anything is stored: a job must not find a broken one after an hour. */
async function countExamples(body: string): Promise<number> {
  let examples = 0;
  let number = 0;
  for (const line of body.split(/\r?\n/)) {
    number++;
    if (line.trim() === '') continue;
    readExample({ line, number });
    if (++examples % linesAtATime === 0) await nextTurn();
  }
  if (examples === 0)
    throw new RequestValidationError([
      { loc: ['body'], msg: 'there is no line of training data in the body', type: 'value_error' },
    ]);
  return examples;
}
