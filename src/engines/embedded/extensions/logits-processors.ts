import { isAbsolute, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { messageOf } from '../../../util/error.ts';
import { EngineError, type ProcessorCall } from '../../engine.ts';

/** The options that a factory gets, once for each reply. */
export interface LogitsProcessorOptions {
  /** `args` and `kwargs` of the request's constructor object; empty when the request gave only a name. */
  args: readonly unknown[];
  kwargs: Readonly<Record<string, unknown>>;
  /** The request's `engine_xargs`. */
  extra: Readonly<Record<string, unknown>>;
  /** Number of tokens; ids are below it. */
  vocabularySize: number;
}

/** The input of a logits processor, before each sampled token. */
export interface LogitsProcessorInput {
  /** Tokens before the reply. Frozen. */
  prompt: readonly number[];
  /** Tokens of the reply so far. Frozen. */
  reply: readonly number[];
  /**
   * One logit for each token, to be changed in place: finite numbers, or -Infinity, which bans a token. Tokens that are
   * not legal here have -Infinity; values written for them are ignored.
   */
  logits: Float64Array;
}

/**
 * Changes the logits in place, before all other sampling parameters. Training calls it again in another thread, for
 * the same tokens in another order, so it must depend only on its options and its input. The gradient treats what it
 * adds to a logit as a constant. Bans are ignored when they would leave no token; in training, a ban of the token
 * that was sampled is ignored too.
 */
export type LogitsProcessor = (input: LogitsProcessorInput) => void;

/**
 * The default export of a logits processor's module: makes the processor of one reply. If it throws, the request is
 * refused with that message.
 */
export type LogitsProcessorFactory = (options: LogitsProcessorOptions) => LogitsProcessor;

/** The factories of the processors that requests may use, by name. */
export type LogitsProcessorFactories = ReadonlyMap<string, LogitsProcessorFactory>;

/** The URLs of logits processors' modules, by processor name. */
export type ProcessorModules = Readonly<Record<string, string>>;

/** Turns URLs and file paths into URLs as text. Relative paths start at the working directory. */
export function processorModules(modules: Readonly<Record<string, string | URL>>): ProcessorModules {
  const addresses = Object.entries(modules).map(([name, module]) => [name, addressOf(module)]);
  return Object.fromEntries(addresses);
}

/** Imports the modules. Throws an `EngineError` that names a module that cannot be loaded or exports no factory. */
export async function loadProcessors(modules: ProcessorModules): Promise<LogitsProcessorFactories> {
  const loading = Object.entries(modules).map(
    async ([name, address]): Promise<[string, LogitsProcessorFactory]> => [name, await load(name, address)],
  );
  return new Map(await Promise.all(loading));
}

function addressOf(module: string | URL): string {
  if (typeof module !== 'string') return module.href;
  if (isAbsolute(module) || !URL.canParse(module)) return pathToFileURL(resolve(module)).href;
  return module;
}

async function load(name: string, address: string): Promise<LogitsProcessorFactory> {
  let factory: unknown;
  try {
    ({ default: factory } = await import(address));
  } catch (error) {
    throw unusable(name, address, messageOf(error));
  }
  if (isFactory(factory)) return factory;
  const problem = factory === undefined ? 'has no default export' : `exports ${typeof factory} as default`;
  throw unusable(name, address, `the module ${problem}; it must be the function that makes the processor`);
}

/** Its parameters and result can be checked only when it is called. */
function isFactory(value: unknown): value is LogitsProcessorFactory {
  return typeof value === 'function';
}

function unusable(name: string, address: string, what: string): EngineError {
  return new EngineError(
    'bad_option',
    `The logits processor ${name} cannot be loaded from ${address}: ${what}`,
  );
}

/** A processor created for one reply. */
export interface NamedProcessor {
  name: string;
  process: LogitsProcessor;
}

/** Creates the processors of a request. Throws an `EngineError` that names a processor that cannot be created. */
export function makeProcessors(
  calls: readonly ProcessorCall[],
  factories: LogitsProcessorFactories,
  vocabularySize: number,
): NamedProcessor[] {
  return calls.map(({ name, args, kwargs, extra }) => {
    const factory = factories.get(name);
    if (!factory) {
      const known = [...factories.keys()].join(', ') || 'none';
      throw new EngineError(
        'unknown_logits_processor',
        `Unknown logits processor ${name}. Registered: ${known}.`,
      );
    }
    const process = run(name, () => factory({ args, kwargs, extra, vocabularySize }));
    if (typeof process !== 'function')
      throw failed(name, `its factory returned ${kindOf(process)}, not a function`);
    return { name, process };
  });
}

/**
 * Runs the processors over the logits, in order. Only the logits of the `legal` tokens count. Throws an `EngineError`
 * that names a processor that failed.
 */
export function runProcessors(
  processors: readonly NamedProcessor[],
  logits: Float64Array,
  legal: Int32Array,
  context: Omit<LogitsProcessorInput, 'logits'>,
): void {
  for (const { name, process } of processors) {
    const before = logits.slice();
    const returned: unknown = run(name, () => process({ ...context, logits }));
    if (returned instanceof Promise) {
      returned.catch(() => undefined);
      throw failed(name, 'it returned a promise; it must be done when it returns');
    }
    let allowed = 0;
    for (const token of legal) {
      const value = logits[token] as number;
      if (Number.isNaN(value) || value === Number.POSITIVE_INFINITY)
        throw failed(name, `it wrote ${value} for token ${token}; write finite numbers or -Infinity`);
      if (value > Number.NEGATIVE_INFINITY) allowed++;
    }
    if (allowed === 0) logits.set(before);
  }
}

function run<Result>(name: string, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw failed(name, messageOf(error));
  }
}

function failed(name: string, what: string): EngineError {
  return new EngineError('logits_processor_failed', `The logits processor ${name} failed: ${what}`);
}

function kindOf(value: unknown): string {
  return value === null ? 'null' : typeof value;
}
