import type { Access } from '../access.ts';
import type { Admission } from '../admission/admission.ts';
import type { BodyLimits } from '../bodies/bodies.ts';
import { RequestValidationError } from '../errors.ts';
import type { DataFiles } from '../store/files.ts';
import type { IncomingFile } from '../store/incoming-file.ts';
import type { Store, UploadRecord } from '../store/store.ts';
import { readFileUrl } from './from-file.ts';
import { fetchUrl } from './from-web.ts';
import { type CheckedData, checkTrainingData, keepTrainingData } from './keep.ts';
import { type DataTaker, type FoundData, refuse, type TrainingDataSources } from './sources.ts';

interface Context {
  store: Store;
  files: DataFiles;
  bodyLimits: BodyLimits;
  trainingData: TrainingDataSources;
  admission: Admission;
  closing: AbortSignal;
}

interface DataRequest {
  /** The `training_data_url` of the request. */
  address: string;
  access: Access;
  /**
   * Called once or twice with the number of examples before any are stored. An error thrown here refuses
   * the data.
   */
  accept: (examples: number) => void;
}

/**
 * Finds the data of a `training_data_url`: `upload:sha256-<hex>`, or a `file:` or `https:` URL that the
 * operator allows. External data is checked line by line and stored like an upload before the job is
 * accepted, so that every run of the job trains on the same data.
 *
 * @throws BusyError if there is no capacity for its bytes, which count like the bytes of bodies.
 */
export async function findTrainingData(service: Context, requested: DataRequest): Promise<UploadRecord> {
  const { address, access, accept } = requested;
  const sha256 = /^upload:sha256-([0-9a-f]{64})$/.exec(address)?.[1];
  if (sha256 === undefined) return fetchTrainingData(service, requested);
  const upload = await service.store.useUpload(sha256, access.entity);
  if (!upload) throw refuse(address, 'no such upload; uploads expire after 30 days without use');
  accept(upload.examples);
  return upload;
}

async function fetchTrainingData(
  service: Context,
  { address, access, accept }: DataRequest,
): Promise<UploadRecord> {
  const { admission, files } = service;
  const slot = admission.dataFetches.take(access.tenant);
  const reserved = admission.body(access.tenant);
  try {
    const file = await files.createIncoming();
    try {
      const { examples } = await read(service, address, {
        limit: service.bodyLimits.preview,
        expect: reserved.bytes,
        expectExamples: accept,
        take: async (bytes) => {
          reserved.bytes(file.bytes + bytes.byteLength);
          await file.append(bytes);
        },
      });
      const data = await check(service, file, access.entity);
      const found = data.upload.examples;
      if (examples !== null && examples !== found)
        throw refuse(
          address,
          `its metadata.json says num_trajectories ${examples}, but the data has ${found}; it may be truncated`,
        );
      accept(found);
      return await keepTrainingData(service, file, { data, entity: access.entity });
    } finally {
      await file.discard();
    }
  } finally {
    reserved.release();
    slot.release();
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
    'must be "upload:sha256-<hex>", from the answer of POST /v1/preview/uploads, or a file: or https: URL that the operator has allowed',
  );
}

/** Reports errors in lines at the field that named the data. */
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
