import { expect, it } from 'vitest';
import { Trajectory } from '../../src/trajectory/index.ts';

const rollout = new AbortController();
const agent = new AbortController();

it('ends a call with the rollout, and with a signal of its own', () => {
  const open = new Trajectory({ signal: rollout.signal, agentSignal: agent.signal });
  const own = new AbortController();
  const both = open.callSignal(own.signal);
  own.abort('enough');
  expect(both?.reason).toBe('enough');
  const other = open.callSignal(new AbortController().signal);
  rollout.abort('over');
  expect(other?.reason).toBe('over');
  expect(new Trajectory().callSignal(own.signal)).toBe(own.signal);
});

it("makes none for a call without a signal or with the agent's, of which ten thousands may wait", () => {
  const open = new Trajectory({ signal: rollout.signal, agentSignal: agent.signal });
  expect(open.callSignal(undefined)).toBe(rollout.signal);
  expect(open.callSignal(agent.signal)).toBe(rollout.signal);
});
