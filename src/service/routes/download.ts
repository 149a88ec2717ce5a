import type { Context } from 'hono';
import { z } from 'zod';
import { wholeNumberText } from '../../contract/index.ts';
import { accessOf } from '../access.ts';
import type { ServiceContext } from '../context.ts';
import { messageOf } from '../errors.ts';
import { operations } from '../openapi/operations.ts';
import { requestIdOf } from '../telemetry.ts';
import { validate } from '../validation.ts';
import { wireOf } from '../wire/wire.ts';
import { findCheckpoint } from './checkpoints.ts';
import { findModel } from './models.ts';
import type { Register } from './route.ts';

const pathSchema = z.object({ step: wholeNumberText(z.int().min(0)) });

export function downloadRoutes(on: Register, service: ServiceContext): void {
  const { engine, files } = service;

  on(operations.downloadCheckpoint, async (context) => {
    const model = await findModel(service, accessOf(context), context.req.param('model_id'));
    const { step } = validate(pathSchema, { step: context.req.param('step') }, 'path');
    const { folder } = await findCheckpoint(service, model, step);
    const { extension, bytes, chunks } = await engine.exportWeights({
      baseModel: model.baseModel,
      folder: folder === null ? null : files.absolute(folder),
    });
    // Names match a pattern without characters that need quoting.
    const fileName = `${model.name}-step${step}${extension}`;
    return context.body(toStream(chunks, service, context), 200, {
      'content-type': 'application/octet-stream',
      'content-length': String(bytes),
      'content-disposition': `attachment; filename="${fileName}"`,
      'accept-ranges': 'none',
    });
  });
}

/** Streams chunks at the client's pace. It stops when the client disconnects or the service closes. */
function toStream(
  chunks: AsyncIterable<Uint8Array>,
  { closing, log }: ServiceContext,
  context: Context,
): ReadableStream<Uint8Array> {
  const wire = wireOf(context);
  // Cuts the connection when the client closes its side.
  wire.whileWanted();
  const iterator = chunks[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          closing.throwIfAborted();
          const next = await iterator.next();
          if (next.done) controller.close();
          else controller.enqueue(next.value);
        } catch (error) {
          // The status is sent already: only a cut connection tells the client.
          wire.cut();
          const details = { request: requestIdOf(context), error: messageOf(error) };
          log({ level: 'error', event: 'download_failed', ...details });
          await iterator.return?.();
        }
      },
      async cancel() {
        await iterator.return?.();
      },
    },
    // Reads nothing ahead, so an answer to HEAD reads nothing at all.
    { highWaterMark: 0 },
  );
}
