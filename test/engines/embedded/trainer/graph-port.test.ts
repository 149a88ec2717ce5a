import { MessageChannel } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { BaseModels } from '../../../../src/engines/embedded/base-models.ts';
import { GraphServer, RemoteGraphs } from '../../../../src/engines/embedded/trainer/graph-port.ts';
import { LocalGraphs, TrainingSessions } from '../../../../src/engines/embedded/trainer/graph-runner.ts';
import { shareWeights } from '../../../../src/engines/embedded/trainer/passes.ts';
import { runtime } from '../sampler/support.ts';
import { base, baseModel } from '../support.ts';

const batch = { sequences: [{ tokens: [1, 2, 3, 4], positions: [1, 3] }], time: 8, picks: 2 };

async function open() {
  const { port1, port2 } = new MessageChannel();
  const sessions = new TrainingSessions(runtime);
  const server = new GraphServer(sessions);
  server.serve(port1);
  const weights = shareWeights(await new BaseModels([]).loadVector(base));
  return { sessions, server, port: port1, remote: new RemoteGraphs(port2), weights };
}

describe('the training graphs at the other end of a port', () => {
  it('give what they give in this thread, several runs at a time', async () => {
    const { sessions, server, remote, weights } = await open();
    const local = new LocalGraphs(sessions);
    await remote.load(baseModel);
    const run = { baseModel, weights, batch };
    const expected = await local.forward({ ...run, keepAs: 0 });
    const slopes = () => new Float32Array(2 * 512).fill(0.1);
    const [first, second] = await Promise.all([0, 1].map((keepAs) => remote.forward({ ...run, keepAs })));
    expect(first).toEqual(expected);
    expect(second).toEqual(expected);
    const gradients = await local.backward(0, slopes());
    expect(await Promise.all([remote.backward(1, slopes()), remote.backward(0, slopes())])).toEqual([
      gradients,
      gradients,
    ]);
    remote.end();
    await server.close();
  });

  it('pass on their error, and run what comes after it', async () => {
    const { server, remote, weights } = await open();
    await expect(remote.backward(7, new Float32Array(1))).rejects.toThrow('no forward pass is kept as 7');
    const unknown = { code: 'unknown_base_model' };
    await expect(remote.load('no-model')).rejects.toMatchObject(unknown);
    const { largest } = await remote.forward({ baseModel, weights, batch, keepAs: null });
    expect(largest).toHaveLength(2);
    remote.end();
    await server.close();
  });

  it('fail the runs in flight and all later ones when the other end is gone', async () => {
    const { server, port, remote } = await open();
    const loading = remote.load(baseModel);
    port.close();
    const died = { code: 'worker_died' };
    await expect(loading).rejects.toMatchObject(died);
    await expect(remote.load(baseModel)).rejects.toMatchObject(died);
    await server.close();
  });
});
