import { EngineError } from '../engine-error.ts';
import { installCommand, type RuntimeChoice, type RuntimeName, runtimeNames } from './runtime-choice.ts';

const imports = {
  'onnxruntime-node': () => import('onnxruntime-node'),
  'onnxruntime-web': () => import('onnxruntime-web'),
} as const;

type Imported = { name: RuntimeName; ort: Awaited<ReturnType<(typeof imports)[RuntimeName]>> };

/** Imports the runtime that is chosen; for `auto`, the first that can be imported. */
export async function importRuntime(choice: RuntimeChoice): Promise<Imported> {
  const faults: Fault[] = [];
  for (const name of choice === 'auto' ? runtimeNames : [choice]) {
    try {
      return { name, ort: await imports[name]() };
    } catch (error) {
      faults.push({ name, reason: isNotInstalled(error, name) ? undefined : reasonOf(error) });
    }
  }
  throw new EngineError(
    'runtime_missing',
    `the embedded engine cannot load ONNX Runtime: ${faults.map(describe).join(', ')}. ${remedy(faults)}`,
  );
}

interface Fault {
  name: RuntimeName;
  /** Why an installed package cannot be loaded; undefined for one that is not installed. */
  reason: string | undefined;
}

const describe = ({ name, reason }: Fault): string =>
  reason === undefined ? `${name} is not installed` : `${name} cannot be loaded here (${reason})`;

function remedy(faults: readonly Fault[]): string {
  const absent = faults.find(({ reason }) => reason === undefined)?.name;
  if (absent !== undefined) return `Run: ${installCommand(absent)}`;
  const other = runtimeNames.find((name) => faults.every((fault) => fault.name !== name));
  return other === undefined
    ? 'Install them again, or run the engine on another machine.'
    : `Choose the runtime ${other} instead, after: ${installCommand(other)}`;
}

/** Whether it is this package that is missing, and not one that it imports. */
const isNotInstalled = (error: unknown, name: RuntimeName): boolean =>
  error instanceof Error &&
  'code' in error &&
  error.code === 'ERR_MODULE_NOT_FOUND' &&
  error.message.includes(`'${name}'`);

const reasonOf = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).split('\n', 1)[0] ?? '';
