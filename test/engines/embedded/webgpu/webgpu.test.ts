import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createEmbeddedEngine } from '../../../../src/engines/embedded/index.ts';
import { sharedFolder } from '../../../support/files.ts';
import { runProgram } from '../../../support/programs.ts';
import { generateCheckpoint } from '../checkpoint/generated.ts';
import type { DeviceResult } from './on-device.ts';
import { unpackSwiftShader } from './swiftshader.ts';

const parent = sharedFolder();
const hasSwiftShader = process.platform === 'linux' && process.arch === 'x64';

describe('checkpoints on WebGPU', { tags: ['long'] }, () => {
  it.skipIf(!hasSwiftShader).each(['qwen3', 'qwen2', 'llama3', 'lfm2'] as const)(
    'sample, score and train %s as on the CPU (SwiftShader: Linux on x64 only)',
    async (family) => {
      const checkpoint = await generateCheckpoint(parent, family);
      const env = await unpackSwiftShader(join(parent, 'swiftshader'));
      const on = async (device: string): Promise<DeviceResult> => {
        const args = [device, checkpoint, join(parent, `${family}-${device}`)];
        return JSON.parse(await runProgram('test/engines/embedded/webgpu/on-device.ts', { args, env }));
      };
      const [cpu, gpu] = [await on('cpu'), await on('webgpu')];
      expect(gpu.tokens).toEqual(cpu.tokens);
      expect(largestDifference(gpu.logprobs, cpu.logprobs)).toBeLessThan(1e-4);
      expect(largestDifference(gpu.scores, cpu.scores)).toBeLessThan(1e-4);
      expect(distance(gpu.adapter, cpu.adapter)).toBeLessThan(1e-3);
      expect(Object.keys(gpu.metrics)).toEqual(Object.keys(cpu.metrics));
      for (const [name, value] of Object.entries(cpu.metrics))
        if (name !== 'tokens_per_second') expect(gpu.metrics[name], name).toBeCloseTo(value, 3);
      // The probability of what was trained has grown, on both as much.
      expect(largestDifference(gpu.trainedLogprobs, cpu.trainedLogprobs)).toBeLessThan(1e-3);
      expect(cpu.refusal).toBeNull();
      expect(gpu.refusal).toMatch(/assigned to the default CPU EP, but fallback/);
    },
  );
});

describe('the device', () => {
  const refusal = (options: object) =>
    createEmbeddedEngine(options).then(
      () => null,
      ({ code, message }) => `${code}: ${message}`,
    );

  it('is refused when it is unknown, has nothing to run, or the runtime has none', async () => {
    const checkpoints = [{ folder: await generateCheckpoint(parent, 'qwen3') }];
    expect(await refusal({ checkpoints, device: 'cuda' })).toMatch(
      /bad_option: `device` is "cuda"\. Pass cpu or webgpu\./,
    );
    expect(await refusal({ device: 'webgpu' })).toMatch(/bad_option: .*for checkpoints, and there are none/);
    expect(await refusal({ checkpoints, device: 'webgpu', runtime: 'onnxruntime-web' })).toMatch(
      /bad_option: .*onnxruntime-web has no WebGPU in Node/,
    );
  });
});

function largestDifference(values: readonly number[], expected: readonly number[]): number {
  expect(values.length).toBe(expected.length);
  return values.reduce(
    (most, value, index) => Math.max(most, Math.abs(value - (expected[index] as number))),
    0,
  );
}

/** Length of the difference, relative to that of the second vector. */
function distance(values: readonly number[], expected: readonly number[]): number {
  expect(values.length).toBe(expected.length);
  return (
    Math.hypot(...values.map((value, index) => value - (expected[index] as number))) / Math.hypot(...expected)
  );
}
