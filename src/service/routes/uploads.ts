import type { Upload } from '../../contract/index.ts';
import { accessOf } from '../access.ts';
import type { ServiceContext } from '../context.ts';
import { operations } from '../openapi/operations.ts';
import { checkTrainingData, keepTrainingData } from '../training-data/keep.ts';
import { answerBodyOnce } from './answers.ts';
import type { Register } from './route.ts';

export function uploadRoutes(on: Register, service: ServiceContext): void {
  on(operations.upload, (context) =>
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
