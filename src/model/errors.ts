import { MartingaleError } from '../contract/index.ts';

/** A prompt part or a setting that the service has no equivalent of, refused rather than ignored. */
export class UnsupportedByModelError extends MartingaleError {
  readonly feature: string;

  constructor(feature: string, remedy: string) {
    super('unsupported_by_model', `The model does not take ${feature}. ${remedy}`);
    this.feature = feature;
  }
}

/** A completion that breaks the interface: no choice, or a stream that ended before its choice did. */
export class IncompleteCompletionError extends MartingaleError {
  constructor(model: string, what: string) {
    super('incomplete_completion', `"${model}" answered ${what}. The call may be repeated.`);
  }
}

/** A model has the name already, and `ifExists` asks for another one. */
export class ModelExistsError extends MartingaleError {
  /** The name as it was asked for, or the last one that was tried. */
  readonly model: string;

  /** @param tried How many names were. */
  constructor(model: string, tried: number, options: ErrorOptions) {
    const what =
      tried === 1
        ? `There is a model ${model} already.`
        : `There are ${tried} models already, up to ${model}, and no more names are tried.`;
    super(
      'model_exists',
      `${what} Give another \`name\`, or say \`ifExists: 'continue'\` to train on from the newest checkpoint of the ` +
        `one that is there${tried === 1 ? ", or `ifExists: 'new'` to take the next free name" : ''}.`,
      options,
    );
    this.model = model;
  }
}

/** `policy()` was called by an agent outside of a rollout, where there is no current model. */
export class NoCurrentModelError extends MartingaleError {
  constructor() {
    super(
      'no_current_model',
      'An agent built on `policy()` was run outside of a rollout. `policy()` is the model of the current rollout; ' +
        'elsewhere give the agent `model.languageModel`.',
    );
  }
}

/** A model of that name exists and was made from another base model than the one asked for. */
export class BaseModelMismatchError extends MartingaleError {
  constructor(model: string, actual: string, wanted: string, options?: ErrorOptions) {
    super(
      'base_model_mismatch',
      `The model "${model}" exists and was made from "${actual}", not from "${wanted}". Choose another name, give ` +
        "`ifExists: 'new'` for the next free one, or delete the model.",
      options,
    );
  }
}

/** A model call was not answered within `callTimeoutMs`, repeats by the client included. */
export class ModelCallTimeoutError extends MartingaleError {
  readonly timeoutMs: number;

  constructor(model: string, timeoutMs: number) {
    super(
      'model_call_timeout',
      `"${model}" had not answered a call within ${timeoutMs} ms of its place among the calls in flight. Raise ` +
        '`callTimeoutMs`, or lower `concurrency` or `max_completion_tokens`.',
    );
    this.timeoutMs = timeoutMs;
  }
}

/** An external model cannot be made of what was given, or has no endpoint. */
export class ExternalModelError extends MartingaleError {
  constructor(message: string) {
    super('external_model', message);
  }
}

/** The policy's default provider was asked for a model that it does not have, and there is no other provider. */
export class NotThePolicyError extends MartingaleError {
  constructor(kind: string, id: string, models: string) {
    super(
      'not_the_policy',
      `The default provider was asked for the ${kind} "${id}", and is the policy's for ${models} only. Name that model ` +
        'in `models`, or give the provider that has it as `otherwise`.',
    );
  }
}
