import type { InferenceModel } from '../../contract/index.ts';
import { parserOf } from '../parse.ts';
import { reportedInferenceModelsSchema } from '../reported.ts';
import { type CallOptions, type Requester, read } from '../requester.ts';

export class InferenceModels {
  readonly #requester: Requester;

  constructor(requester: Requester) {
    this.#requester = requester;
  }

  /** The models that chat completions can call, base models among them. Asks `inferenceBaseUrl`. */
  async list(options: CallOptions = {}): Promise<InferenceModel[]> {
    const address = this.#requester.inferenceAddress;
    const parse = parserOf(reportedInferenceModelsSchema);
    return (await read(this.#requester, '/models', options, parse, { address })).data;
  }
}
