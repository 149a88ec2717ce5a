import { isAbsolute, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { EngineError, type ProcessorCall } from '../../engine.ts';

/** What a logits processor is made with, once for each reply. */
export interface LogitsProcessorOptions {
  /** `args` and `kwargs` of the request's constructor object; empty where it gave a name alone. */
  args: readonly unknown[];
  kwargs: Readonly<Record<string, unknown>>;
  /** The request's `engine_xargs`. */
  extra: Readonly<Record<string, unknown>>;
  /** How many tokens there are; ids are below it. */
  vocabularySize: number;
}

/** What a logits processor works on before a token is sampled. */
export interface LogitsProcessorInput {
  /** Tokens before the reply. Frozen. */
  prompt: readonly number[];
  /** Tokens of the reply so far. Frozen. */
  reply: readonly number[];
  /**
   * A logit for each token, to be changed in place: finite numbers, or -Infinity, which bans a token. Tokens that are
   * not legal here stand at -Infinity, and what is written there counts for nothing.
   */
  logits: Float64Array;
}

/**
 * Changes the logits in place, before everything else that changes them. Training runs it again, in another thread
 * and for the same tokens in another order, so it must depend on nothing but its options and its input. The gradient
 * takes what it adds to a logit as a constant. A ban that would leave no token is passed over, and one of a token
 * that was sampled is passed over for that token in training.
 */
export type LogitsProcessor = (input: LogitsProcessorInput) => void;

/**
 * The default export of a logits processor's module: makes the processor of one reply. What it throws refuses the
 * request.
 */
export type LogitsProcessorFactory = (options: LogitsProcessorOptions) => LogitsProcessor;

/** The factories of the processors that requests may ask for, by name. */
export type LogitsProcessorFactories = ReadonlyMap<string, LogitsProcessorFactory>;

/** Modules of logits processors by the names that requests give: the addresses of the modules as text. */
export type ProcessorModules = Readonly<Record<string, string>>;

/** The addresses of modules given as URLs or as paths of files; relative ones start at the working directory. */
export function processorModules(modules: Readonly<Record<string, string | URL>>): ProcessorModules {
  const addresses = Object.entries(modules).map(([name, module]) => [name, addressOf(module)]);
  return Object.fromEntries(addresses);
}

/** Imports the modules. Throws an `EngineError` that names the one that cannot be had or exports no factory. */
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
    throw unusable(name, address, error instanceof Error ? error.message : String(error));
  }
  if (isFactory(factory)) return factory;
  const found = factory === undefined ? 'has no default export' : `exports ${typeof factory} as default`;
  throw unusable(name, address, `the module ${found}; it must be the function that makes the processor`);
}

/** What a function takes and gives shows when it is called. */
function isFactory(value: unknown): value is LogitsProcessorFactory {
  return typeof value === 'function';
}

function unusable(name: string, address: string, what: string): EngineError {
  return new EngineError('bad_option', `logitsProcessors: ${name} cannot be loaded from ${address}: ${what}`);
}

/** A processor made for one reply. */
export interface NamedProcessor {
  name: string;
  process: LogitsProcessor;
}

/** Makes the processors that a request asks for. Throws an `EngineError` that names the one that cannot be made. */
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
        `there is no logits processor ${name}; registered: ${known}`,
      );
    }
    const process = run(name, () => factory({ args, kwargs, extra, vocabularySize }));
    if (typeof process !== 'function')
      throw failed(name, `its factory returned ${kindOf(process)}, not a function`);
    return { name, process };
  });
}

/**
 * Runs the processors over the logits, in their order. `legal` are the tokens whose logits count. Throws an
 * `EngineError` that names the processor that failed.
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
    let left = 0;
    for (const token of legal) {
      const value = logits[token] as number;
      if (Number.isNaN(value) || value === Number.POSITIVE_INFINITY)
        throw failed(name, `it wrote ${value} for token ${token}; write finite numbers or -Infinity`);
      if (value > Number.NEGATIVE_INFINITY) left++;
    }
    if (left === 0) logits.set(before);
  }
}

function run<Result>(name: string, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw failed(name, error instanceof Error ? error.message : String(error));
  }
}

function failed(name: string, what: string): EngineError {
  return new EngineError('logits_processor_failed', `the logits processor ${name} failed: ${what}`);
}

function kindOf(value: unknown): string {
  return value === null ? 'null' : typeof value;
}
