import type { Tensor } from 'onnxruntime-common';
import { describe, expect, it } from 'vitest';
import { Graph } from '../../../../src/engines/embedded/onnx/graph.ts';
import { forgetLent, takeArray } from '../../../../src/engines/embedded/onnx/output-memory.ts';
import { freeAll } from '../../../../src/engines/embedded/runtime.ts';
import { runtime } from '../sampler/support.ts';

const most = 2 ** 24;
const dataOf = (tensor: Tensor | undefined) => tensor?.data as Float32Array;

async function doubling() {
  const graph = new Graph();
  graph.input('given', 'float32', ['rows']);
  graph.output('kept', graph.op('Add', ['given', 'given']), ['rows']);
  graph.output('passing', graph.op('Neg', ['given']), ['rows']);
  return runtime.session(graph.finish());
}

describe('the memory of outputs', () => {
  it('holds what a run writes, and is used again for other shapes when it was given back', async () => {
    const session = await doubling();
    const run = (rows: number) =>
      session.run(
        {
          given: runtime.float(
            Float32Array.from({ length: rows }, (_, at) => at),
            [rows],
          ),
        },
        runtime.outputs([['kept', [rows]]]),
      );
    const first = await run(900);
    expect(first.kept?.data.at(-1)).toBe(1798);
    expect(first.passing?.data.at(-1)).toBe(-899);
    const { buffer } = dataOf(first.kept);
    freeAll([dataOf(first.kept)]);
    const second = await run(1000);
    const third = await run(1000);
    expect(dataOf(second.kept).buffer).toBe(buffer);
    expect(dataOf(third.kept).buffer).not.toBe(buffer);
    expect(second.kept?.data.at(-1)).toBe(1998);
    freeAll([second, third].map(({ kept }) => dataOf(kept)));
    await session.release();
  });

  it('is bounded: beyond it outputs are as without it, until arrays are given back or forgotten', () => {
    // What other tests of this process have taken.
    forgetLent();
    const whole = takeArray(most);
    expect(whole).toHaveLength(most);
    expect(takeArray(1)).toBeNull();
    expect(runtime.outputs([['kept', [1]]])).toEqual({});
    freeAll([whole as Float32Array]);
    // What is idle makes room for other lengths.
    const half = takeArray(most / 2);
    expect(half?.buffer).not.toBe(whole?.buffer);
    // What fits in no case takes nothing from the others.
    freeAll([half as Float32Array]);
    expect(takeArray(most + 1)).toBeNull();
    expect(takeArray(most / 2)?.buffer).toBe(half?.buffer);
    expect(takeArray(most / 2 + 1)).toBeNull();
    forgetLent();
    const again = takeArray(most);
    expect(again).toHaveLength(most);
    // A forgotten array is freed like any other.
    freeAll([half as Float32Array, again as Float32Array]);
    expect(half).toHaveLength(0);
    expect(takeArray(most)?.buffer).toBe(again?.buffer);
    forgetLent();
  });
});
