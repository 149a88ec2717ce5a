import { expect } from 'vitest';
import { type ClientOptions, createClient, RequestError } from '../../../src/client/index.ts';
import type { NamedFault } from './named-faults.ts';
import type { Operation, Subject } from './operations.ts';
import { FaultyProxy, pass } from './proxy.ts';
import type { World } from './world.ts';

export interface TrialOptions {
  world: World;
  operation: Operation;
  fault: NamedFault;
  /** Number of first requests that meet the fault. */
  times: number;
  /** Target of the proxy. Default: the service. */
  target?: string;
  client?: Partial<ClientOptions>;
}

export interface Trial {
  operation: Operation;
  subject: Subject;
  fault: NamedFault;
  result: PromiseSettledResult<unknown>;
}

/**
 * Runs an operation through its own proxy with a fault. It must end in a result or a helpful error, free its
 * connections and leave the client usable for the next call.
 */
export async function tryOut({ world, operation, fault, times, target, client: options }: TrialOptions) {
  const subject = await world.subject(operation);
  await using proxy = await FaultyProxy.start(target ?? world.service.url);
  let met = 0;
  const meeting = Promise.withResolvers<void>();
  proxy.fault = ({ method, path }) => {
    const isIt = method === operation.method && operation.path.test(path) && met++ < times;
    if (isIt) meeting.resolve();
    return isIt ? fault.fault : pass;
  };
  const client = createClient({
    ...{ baseUrl: proxy.url, apiKey: world.service.apiKey, retries: times === 1 ? 2 : 1, backoffMs: 0.1 },
    timeoutMs: fault.timeoutMs ?? 20_000,
    ...options,
  });
  const restore = await fault.begin?.(proxy, times);
  const [result] = await Promise.allSettled([
    operation.run(client, subject),
    ...(fault.withAnother ? [meeting.promise.then(() => client.health())] : []),
  ]);
  await restore?.();
  if (result.status === 'rejected') expectNamed(result.reason, operation);
  proxy.fault = () => pass;
  const usable = await client.health().catch((error) => error);
  expect([operation.name, fault.name, usable]).toEqual([operation.name, fault.name, { status: 'ok' }]);
  await client.close();
  await expect.poll(() => proxy.open, { interval: 1 }).toBe(0);
  return { operation, subject, fault, result };
}

/** Expects an error of the client that names the request. */
function expectNamed(error: unknown, { method, path, before, name }: Operation): void {
  expect(error, name).toBeInstanceOf(RequestError);
  if (!(error instanceof RequestError)) return;
  expect(error.method).toBe(method);
  expect(path.test(error.path) || before?.test(error.path), error.path).toBe(true);
  expect(error.detail).not.toBe('');
  expect(error.message).toMatch(/^(GET|POST|DELETE) \/v1\/\S+: .+\. [A-Z].+\.$/s);
  if (error.status !== null) expect(error.message).toContain(String(error.status));
}

/** The operations with an unexpected outcome, which is `succeeds` or the code of an error. */
export function surprises(trials: readonly Trial[], expected: (operation: Operation) => string): string[] {
  return trials.flatMap(({ operation, result }) => {
    const came = result.status === 'fulfilled' ? 'succeeds' : String(result.reason.code);
    const should = expected(operation);
    const why = result.status === 'fulfilled' ? '' : ` (${result.reason.message})`;
    return came === should ? [] : [`${operation.name}: ${came}${why}, and not ${should}`];
  });
}
