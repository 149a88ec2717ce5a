import { EngineError } from '../engine-error.ts';

/** Packages that the engine can run on, best first. They are optional peers: whoever trains elsewhere needs neither. */
export const runtimeNames = ['onnxruntime-node', 'onnxruntime-web'] as const;

export type RuntimeName = (typeof runtimeNames)[number];
export type RuntimeChoice = 'auto' | RuntimeName;

/** The version of the peers. The graphs use operators that are no standard and differ between versions. */
export const runtimeVersion = '1.30.0';

/**
 * What a person types to install a runtime. Scripts are left out, because that of onnxruntime-node fetches CUDA from
 * outside the registry, which the engine does not use, and fails the installation where it cannot.
 */
export const installCommand = (name: RuntimeName): string =>
  `npm install --ignore-scripts ${name}@${runtimeVersion}`;

/** What `MARTINGALE_RUNTIME` says; `auto` where it is not set. */
export function runtimeOfEnvironment(): RuntimeChoice {
  const chosen = process.env.MARTINGALE_RUNTIME ?? 'auto';
  const found = ['auto' as const, ...runtimeNames].find((name) => name === chosen);
  if (found !== undefined) return found;
  throw new EngineError(
    'bad_option',
    `MARTINGALE_RUNTIME must be auto, onnxruntime-node or onnxruntime-web, not ${chosen}`,
  );
}
