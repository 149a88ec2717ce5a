import { MessageChannel } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { BaseModels } from '../../../../src/engines/embedded/base-models.ts';
import { PartialSum } from '../../../../src/engines/embedded/runner/adapter-vector.ts';
import type { BatchRun, BatchRunner } from '../../../../src/engines/embedded/runner/batch-runner.ts';
import type { Runtime } from '../../../../src/engines/embedded/runtime.ts';
import { GraphsOfModels } from '../../../../src/engines/embedded/trainer/graphs-of-models.ts';
import { RemoteRunner, RunnerServer } from '../../../../src/engines/embedded/trainer/remote-runner.ts';
import { softmaxDecisions } from '../runner/softmax-decisions.ts';
import { runtime } from '../sampler/support.ts';
import { base, baseModel } from '../support.ts';

const { signal } = new AbortController();
const legal = Int32Array.of(1, 2, 3, 90);
const taken = { temperature: 1, legal };

async function open() {
  const { port1, port2 } = new MessageChannel();
  const models = new BaseModels([]);
  const graphs = new GraphsOfModels(models, { cpu: runtime, device: runtime });
  const local = await graphs.hold(baseModel);
  const server = new RunnerServer();
  server.serve(port1, local);
  const run: BatchRun = {
    tokens: { sequences: [[1, 2, 3, 4]], time: 6 },
    vector: await models.loadVector(base),
    keptLayers: 1,
    softmax: softmaxDecisions([
      { ...taken, state: 1, token: 3 },
      { ...taken, state: 2, token: 90, temperature: 0.5 },
      { ...taken, state: 3, token: 400, legal: null },
    ]),
    others: Int32Array.of(0, 3),
  };
  const close = async () => {
    await server.close();
    await graphs.close();
  };
  return { local, close, port: port1, remote: new RemoteRunner(port2), run };
}

const slopes = () => ({ logprobs: Float32Array.of(1, -2, 0.5), entropies: Float32Array.of(0, 0.1, 0) });

it('graphs that could not be created are created for the next job', async () => {
  let failures = 1;
  const failing: Runtime = {
    ...runtime,
    session: async (model) => {
      if (failures-- > 0) throw new Error('no memory');
      return runtime.session(model);
    },
  };
  const graphs = new GraphsOfModels(new BaseModels([]), { cpu: failing, device: failing });
  await expect(graphs.hold(baseModel)).rejects.toThrow('no memory');
  const created = await graphs.hold(baseModel);
  expect(await graphs.hold(baseModel)).toBe(created);
  await graphs.close();
});

describe('the training graphs at the other end of a port', () => {
  it('give what they give in this thread, several passes at a time', async () => {
    const { local, remote, run, close } = await open();
    const states = Int32Array.of(3);
    const gradient = () => new Float32Array(512).fill(0.1);
    const through = async (runner: BatchRunner, pass: number) => {
      const probabilities = await runner.forward(pass, run, signal);
      const logits = structuredClone(await runner.logits(pass, states));
      const sum = new PartialSum();
      await runner.addLogitsGradient(pass, states, gradient(), sum);
      await runner.backward(pass, slopes(), sum);
      return { probabilities, logits, parts: sum.parts };
    };
    const expected = structuredClone(await through(local, 9));
    expect(await Promise.all([1, 2].map((pass) => through(remote, pass)))).toEqual([expected, expected]);
    remote.close();
    await close();
  });

  it('pass on their error, and run what comes after it', async () => {
    const { remote, run, close } = await open();
    const sum = new PartialSum();
    await expect(remote.backward(7, slopes(), sum)).rejects.toThrow('no forward pass is kept as 7');
    const foreign = { ...run, tokens: { sequences: [[1, 512]], time: 2 } };
    await expect(remote.forward(1, foreign)).rejects.toMatchObject({ code: 'bad_datum' });
    const { logprobs } = await remote.forward(1, run);
    expect(logprobs).toHaveLength(3);
    remote.end(1);
    await expect(remote.backward(1, slopes(), sum)).rejects.toThrow('no forward pass is kept as 1');
    remote.close();
    await close();
  });

  it('fail the runs in flight and all later ones when the other end is gone', async () => {
    const { port, remote, run, close } = await open();
    const running = remote.forward(1, run);
    port.close();
    const died = { code: 'worker_died' };
    await expect(running).rejects.toMatchObject(died);
    await expect(remote.logits(1, Int32Array.of(0))).rejects.toMatchObject(died);
    await close();
  });
});
