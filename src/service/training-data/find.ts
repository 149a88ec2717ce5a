import type { Access } from '../access.ts';
import type { ServiceContext } from '../context.ts';
import { RequestValidationError } from '../errors.ts';
import type { IncomingFile } from '../store/incoming-file.ts';
import type { UploadRecord } from '../store/store.ts';
import { readFileUrl } from './from-file.ts';
import { fetchUrl } from './from-web.ts';
import { type CheckedData, checkTrainingData, keepTrainingData } from './keep.ts';
import { type DataTaker, type FoundData, refuse } from './sources.ts';

type Context = Pick<
  ServiceContext,
  'store' | 'files' | 'bodyLimits' | 'trainingData' | 'admission' | 'closing'
>;

interface Wanted {
  /** The `training_data_url`. */
  address: string;
  access: Access;
  /** Hears how many examples there are, before any of them are kept, once or twice. What it throws is thrown. */
  accept: (examples: number) => void;
}

/**
 * The training data that a `training_data_url` names: `upload:sha256-<hex>`, or a `file:` or `https:` URL where the
 * operator has allowed it. What is read from elsewhere is checked line by line and kept here as an upload is, before
 * the job is accepted, so that the job trains on what it was given, also when it runs again.
 *
 * @throws BusyError where there is no room for it: its bytes count like those of bodies.
 */
export async function findTrainingData(service: Context, wanted: Wanted): Promise<UploadRecord> {
  const { address, access, accept } = wanted;
  const sha256 = /^upload:sha256-([0-9a-f]{64})$/.exec(address)?.[1];
  if (sha256 === undefined) return fetchTrainingData(service, wanted);
  const upload = await service.store.useUpload(sha256, access.entity);
  if (!upload)
    throw refuse(address, 'nothing was uploaded here under this url, or it was not used for 30 days');
  accept(upload.examples);
  return upload;
}

async function fetchTrainingData(
  service: Context,
  { address, access, accept }: Wanted,
): Promise<UploadRecord> {
  const { admission, files } = service;
  const place = admission.dataFetch(access.tenant);
  const room = admission.body(access.tenant);
  try {
    const file = await files.createIncoming();
    try {
      const { examples } = await read(service, address, {
        limit: service.bodyLimits.preview,
        expect: room.bytes,
        expectExamples: accept,
        take: async (bytes) => {
          room.bytes(file.bytes + bytes.byteLength);
          await file.append(bytes);
        },
      });
      const data = await check(service, file, access.entity);
      const found = data.upload.examples;
      if (examples !== null && examples !== found)
        throw refuse(
          address,
          `its metadata.json says num_trajectories ${examples}, but there are ${found}; the data may be cut off`,
        );
      accept(found);
      return await keepTrainingData(service, file, { data, entity: access.entity });
    } finally {
      await file.discard();
    }
  } finally {
    room.release();
    place.release();
  }
}

function read(service: Context, address: string, taker: DataTaker): Promise<FoundData> {
  const { trainingData, closing } = service;
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
async function check(service: Context, file: IncomingFile, entity: string | null): Promise<CheckedData> {
  try {
    return await checkTrainingData(service, file, entity);
  } catch (error) {
    if (!(error instanceof RequestValidationError)) throw error;
    const moved = error.issues.map((issue) => ({
      ...issue,
      loc: ['body', 'training_data_url', ...issue.loc.slice(1)],
    }));
    throw new RequestValidationError(moved);
  }
}
