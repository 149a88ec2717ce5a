import type { Hono } from 'hono';
import type { Upload } from '../../contract/index.ts';
import { accessOf } from '../access.ts';
import type { ServiceContext } from '../context.ts';
import { checkTrainingData, keepTrainingData } from '../training-data/keep.ts';
import { answerBodyOnce } from './answers.ts';

export function uploadRoutes(app: Hono, service: ServiceContext): void {
  app.post('/v1/preview/uploads', (context) =>
    answerBodyOnce(service, context, async ({ file: large, memory }) => {
      const file = large ?? (await service.files.createIncoming());
      try {
        if (memory) await file.append(memory);
        const { entity } = accessOf(context);
        const data = await checkTrainingData(service, file, entity);
        const { sha256, bytes } = await keepTrainingData(service, file, { data, entity });
        const upload: Upload = { id: `sha256-${sha256}`, url: `upload:sha256-${sha256}`, sha256, bytes };
        return { status: 200, body: upload, modelId: null };
      } finally {
        await file.discard();
      }
    }),
  );
}
