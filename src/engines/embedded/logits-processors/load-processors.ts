import { isAbsolute, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { EngineError } from '../../engine-error.ts';
import type { LogitsProcessorFactories, LogitsProcessorFactory } from './logits-processor.ts';

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
