import { type Upload, uploadSchema } from '../../contract/index.ts';
import { textInSlices } from '../json-slices.ts';
import { parserOf } from '../parse.ts';
import { type IdempotentCallOptions, post, type Requester } from '../requester.ts';

/** Training data for supervised jobs. An addition of ours. */
export class Uploads {
  readonly #requester: Requester;

  constructor(requester: Requester) {
    this.#requester = requester;
  }

  /**
   * Stores JSON lines, one `SftExample` each. The answer's `url` goes into `training_data_url`; it names the data
   * by its content, so the same lines give the same one.
   */
  async create(jsonLines: string | Uint8Array, options: IdempotentCallOptions = {}): Promise<Upload> {
    const headers = { 'content-type': 'application/jsonl' };
    const body = typeof jsonLines === 'string' ? await textInSlices(jsonLines, options.signal) : jsonLines;
    const posted = { body, headers, isRepeatable: true };
    return post(this.#requester, '/preview/uploads', options, parserOf(uploadSchema), posted);
  }
}
