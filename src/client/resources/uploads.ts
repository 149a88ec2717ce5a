import { type Upload, uploadSchema } from '../../contract/index.ts';
import { parserOf } from '../parse.ts';
import { type IdempotentCallOptions, Resource } from '../requester.ts';

/** Training data for supervised jobs. An extension: other services may not have it. */
export class Uploads extends Resource {
  /**
   * Stores JSON Lines, one `SftExample` per line. Pass the answer's `url` as `training_data_url`. The URL is derived from
   * the content, so the same lines have the same URL.
   */
  async create(jsonLines: string | Uint8Array, options: IdempotentCallOptions = {}): Promise<Upload> {
    const headers = { 'content-type': 'application/jsonl' };
    const posted = { body: jsonLines, headers, isRepeatable: true };
    return this.requester.post('/preview/uploads', options, parserOf(uploadSchema), posted);
  }
}
