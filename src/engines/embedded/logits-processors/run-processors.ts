import type { ProcessorCall } from '../../engine.ts';
import { EngineError } from '../../engine-error.ts';
import type { LogitsProcessor, LogitsProcessorFactories, LogitsProcessorInput } from './logits-processor.ts';

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
