import {
  type CompletionSource,
  closeEndpoints,
  ModelHandle,
  type ModelSettings,
  Trajectory,
} from 'martingale';
import { runInTrajectory } from 'martingale/loop';
import { expect } from 'vitest';
import type { ChatCompletionRequest, Message } from '../../src/contract/index.ts';
import { type FakePolicy, render, startFakeService } from '../model/fake-service.ts';

export const name = 'local/shop/desk:step3';

/** A source of completions with one function for whole and streamed answers. */
export const completionsOf = (create: (...given: never[]) => Promise<unknown>): CompletionSource =>
  ({ create }) as unknown as CompletionSource;

/** A fake service, its model and an endpoint server, which close with the test. */
export async function openDesk(policy: FakePolicy, settings: ModelSettings = {}) {
  const service = await startFakeService({ policy });
  const model = new ModelHandle({ client: service.client, name, settings });
  return {
    service,
    model,
    async [Symbol.asyncDispose]() {
      await closeEndpoints();
      await service[Symbol.asyncDispose]();
    },
  };
}

/** A rollout's trajectory, and a function that ends the rollout. */
export function openRollout(options: { seed?: number; limits?: { turns?: number; tokens?: number } } = {}) {
  const controller = new AbortController();
  const trajectory = new Trajectory({ policy: name, seed: 5, ...options, signal: controller.signal });
  const end = () => {
    trajectory.close();
    controller.abort(new Error('The rollout has ended.'));
  };
  const endpoint = (model: ModelHandle) => runInTrajectory(trajectory, () => model.endpoint());
  return { trajectory, end, endpoint };
}

/** Each history equals, token for token, its last prompt and reply at the service, and can be trained on. */
export function expectExact(trajectory: Trajectory, requests: readonly ChatCompletionRequest[]) {
  const prompts = requests.map(({ messages }) => render(messages));
  let choices = 0;
  for (const history of trajectory.histories) {
    const messages = history.entries.map(
      (entry): Message => ('message' in entry ? { role: 'assistant', token_ids: entry.token_ids } : entry),
    );
    const sampled = history.choices.at(-1)?.token_ids ?? [];
    const whole = render(messages).slice(0, -1);
    expect(whole.slice(-sampled.length)).toEqual(sampled);
    expect(prompts).toContainEqual(whole.slice(0, whole.length - sampled.length));
    choices += history.choices.length;
  }
  expect(choices).toBe(requests.length);
  trajectory.reward = 1;
  const body = trajectory.toBody();
  expect(body.reward).toBe(1);
  expect(body.initial_policy_version).toBe(3);
}

/** Looks up an order with unusually formatted arguments, then answers. */
export const twoTurns: FakePolicy = ({ messages }) =>
  messages.at(-1)?.role === 'tool'
    ? { text: 'it is paid' }
    : { toolCalls: [{ name: 'order', arguments: '{ "order" :  12.0 }' }] };

export const orderParameters = {
  type: 'object',
  properties: { order: { type: 'number' } },
  required: ['order'],
  additionalProperties: false,
} as const;
