import { afterEach, describe, expect, it } from 'vitest';
import { deskRequest } from '../../../recipes/desk/demonstrations.ts';
import { desk } from '../../../recipes/desk/environment.ts';
import { deskScenarios } from '../../../recipes/desk/scenarios.ts';
import { createClient } from '../../../src/client/index.ts';
import type { ResponseMessage } from '../../../src/contract/index.ts';
import { ModelHandle, Trajectory } from '../../../src/index.ts';
import { calls, type ScriptedService, says, startScriptedService } from './scripted-service.ts';

const [scenario] = deskScenarios({ split: 'val', seed: 1, count: 1 });
if (!scenario) throw new Error('There is no scenario.');
const verdict = scenario.fine ? 'done' : 'sorry';
const rightCall = calls(scenario.tool, scenario.order);
const rightAnswer = says(JSON.stringify({ verdict, code: scenario.code }));

describe('the desk agent', () => {
  let service: ScriptedService | undefined;
  afterEach(() => service?.close());

  async function run(...script: ResponseMessage[]) {
    service = await startScriptedService(script);
    const client = createClient({ baseUrl: service.url, apiKey: 'test' });
    const signal = AbortSignal.timeout(10_000);
    const opened = await desk.open({ scenario: scenario!, seed: 1, signal });
    const outcome = await opened.rollout({
      model: new ModelHandle({ client, name: 'local/desk/clerk' }),
      trajectory: new Trajectory(),
      signal,
    });
    await client.close();
    return { outcome, requests: service.requests };
  }

  it('calls a tool, reads its answer and tells the customer', async () => {
    const { outcome, requests } = await run(rightCall, rightAnswer);
    expect(outcome).toEqual({
      calls: [{ tool: scenario.tool, order: scenario.order }],
      answer: { verdict, code: scenario.code },
    });
    expect(requests[1]?.messages.at(-1)).toMatchObject({
      role: 'tool',
      content: `status ${scenario.fine ? 'ok' : 'denied'} code ${scenario.code}`,
    });
  });

  it('sends exactly the tools and the response format that the demonstrations have', async () => {
    const { requests } = await run(rightAnswer);
    const { tools, response_format } = await deskRequest();
    expect(requests[0]?.tools).toStrictEqual(tools);
    expect(requests[0]?.response_format).toStrictEqual(response_format);
    expect(requests[0]?.tool_choice).toBeUndefined();
    expect(requests[0]?.messages).toStrictEqual([{ role: 'user', content: scenario.message }]);
  });

  it('ends without an answer after a second call', async () => {
    const { outcome, requests } = await run(rightCall, rightCall, rightAnswer);
    expect(outcome.answer).toBeNull();
    expect(outcome.calls).toHaveLength(2);
    expect(requests).toHaveLength(2);
  });

  it('has no answer where its reply is not what was asked for', async () => {
    expect((await run(says('of course!'))).outcome).toEqual({ calls: [], answer: null });
    expect((await run(says('{"verdict":"maybe","code":"1"}'))).outcome.answer).toBeNull();
  });

  it('fails, and is not judged, where the service does', async () => {
    await expect(run(rightCall)).rejects.toThrow();
  });
});
