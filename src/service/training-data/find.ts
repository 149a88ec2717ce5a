import type { Access } from '../access.ts';
import type { ServiceContext } from '../context.ts';
import { RequestValidationError } from '../errors.ts';
import type { IncomingFile } from '../store/incoming-file.ts';
import type { UploadRecord } from '../store/store.ts';
import { type FoundData, refuse } from './found-data.ts';
import { readFileUrl } from './from-file.ts';
import { fetchUrl } from './from-web.ts';
import { keepTrainingData } from './keep.ts';

type Context = Pick<ServiceContext, 'store' | 'files' | 'bodyLimits' | 'trainingData' | 'closing'>;

/**
 * The training data that a `training_data_url` names: `upload:sha256-<hex>`, or a `file:` or `https:` URL where the
 * operator has allowed it. What is read from elsewhere is checked line by line and kept here as an upload is, before
 * the job is accepted, so that the job trains on what it was given, also when it runs again.
 */
export async function findTrainingData(
  service: Context,
  { entity }: Access,
  address: string,
): Promise<UploadRecord> {
  const sha256 = /^upload:sha256-([0-9a-f]{64})$/.exec(address)?.[1];
  if (sha256 !== undefined) {
    const upload = await service.store.upload(sha256, entity);
    if (upload) return upload;
    throw refuse(address, 'nothing was uploaded here under this url');
  }
  const file = await service.files.createIncoming();
  try {
    const { examples } = await read(service, address, file);
    const upload = await keep(service, file, entity);
    if (examples !== null && examples !== upload.examples)
      throw refuse(
        address,
        `its metadata.json says num_trajectories ${examples}, but there are ${upload.examples}; the data may be cut off`,
      );
    return upload;
  } finally {
    await file.discard();
  }
}

function read(service: Context, address: string, file: IncomingFile): Promise<FoundData> {
  const { trainingData, closing } = service;
  const taker = { limit: service.bodyLimits.preview, take: (bytes: Uint8Array) => file.append(bytes) };
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url?.protocol === 'file:') return readFileUrl(url, trainingData, taker);
  if (url?.protocol === 'https:' || url?.protocol === 'http:')
    return fetchUrl(url, trainingData, taker, closing);
  throw refuse(
    address,
    'must be "upload:sha256-<hex>", as POST /v1/preview/uploads answers it, or a file: or https: URL that the operator has allowed',
  );
}

/** What is wrong with a line is said of the field that named the data. */
async function keep(service: Context, file: IncomingFile, entity: string | null): Promise<UploadRecord> {
  try {
    return await keepTrainingData(service, file, entity);
  } catch (error) {
    if (!(error instanceof RequestValidationError)) throw error;
    const moved = error.issues.map((issue) => ({
      ...issue,
      loc: ['body', 'training_data_url', ...issue.loc.slice(1)],
    }));
    throw new RequestValidationError(moved);
  }
}
