import { z } from 'zod';
import { wholeNumberText } from '../../contract/index.ts';
import { accessOf } from '../access.ts';
import type { ServiceContext } from '../context.ts';
import { operations } from '../openapi/operations.ts';
import { streamedBody } from '../server-sent-events.ts';
import { validate } from '../validation.ts';
import { findCheckpoint } from './checkpoints.ts';
import { findModel } from './models.ts';
import type { Register } from './route.ts';

const pathSchema = z.object({ step: wholeNumberText(z.int().min(0)) });

export function downloadRoutes(on: Register, service: ServiceContext): void {
  const { engine, files, closing, log } = service;

  on(operations.downloadCheckpoint, async (context) => {
    const model = await findModel(service, accessOf(context), context.req.param('model_id'));
    const { step } = validate(pathSchema, { step: context.req.param('step') }, 'path');
    const { folder } = await findCheckpoint(service, model, step);
    const { extension, bytes, chunks } = await engine.exportWeights({
      baseModel: model.baseModel,
      folder: folder === null ? null : files.absolute(folder),
    });
    const untilClosed = async function* () {
      for await (const chunk of chunks) {
        closing.throwIfAborted();
        yield chunk;
      }
    };
    // Names match a pattern without characters that need quoting.
    const fileName = `${model.name}-step${step}${extension}`;
    return context.body(streamedBody(context, untilClosed, { log, event: 'download_failed' }), 200, {
      'content-type': 'application/octet-stream',
      'content-length': String(bytes),
      'content-disposition': `attachment; filename="${fileName}"`,
      'accept-ranges': 'none',
    });
  });
}
