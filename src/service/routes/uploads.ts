import type { Hono } from 'hono';
import type { Upload } from '../../contract/index.ts';
import type { ServiceContext } from '../context.ts';
import { keepTrainingData } from '../training-data/keep.ts';
import { answerOnce } from './answers.ts';

export function uploadRoutes(app: Hono, service: ServiceContext): void {
  app.post('/v1/preview/uploads', (context) =>
    answerOnce(service, context, async (body) => {
      const { sha256, bytes } = await keepTrainingData(service, body);
      const upload: Upload = { id: `sha256-${sha256}`, url: `upload:sha256-${sha256}`, sha256, bytes };
      return { status: 200, body: upload, modelId: null };
    }),
  );
}
