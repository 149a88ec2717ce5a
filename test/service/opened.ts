import { onTestFinished } from 'vitest';
import { Admission } from '../../src/service/admission/admission.ts';
import { resolveLimits, type ServiceLimits } from '../../src/service/admission/service-limits.ts';
import { createApp } from '../../src/service/app.ts';
import { ServiceError } from '../../src/service/errors.ts';
import { Connections } from '../../src/service/http/exchange.ts';
import { Listening } from '../../src/service/http/listening.ts';
import { openService } from '../../src/service/open-service.ts';
import { KeyStore } from '../../src/service/store/key-store.ts';
import type { LogEntry } from '../../src/service/telemetry.ts';
import { resolveSources, type TrainingDataOptions } from '../../src/service/training-data/sources.ts';
import { temporaryFolder } from '../support/files.ts';
import { baseModel, ScriptedEngine } from '../support/scripted-engine.ts';
import { callsTo, type Json } from './harness.ts';

interface OpenedOptions {
  dataFolder?: string;
  limits?: Partial<ServiceLimits>;
  trainingData?: TrainingDataOptions;
}

const maxBodyBytes = 100_000;

/** A service whose parts a test can access. No job runs until its queue is woken. */
export async function open({ dataFolder, limits, trainingData }: OpenedOptions = {}) {
  const folder = dataFolder ?? (await temporaryFolder());
  const closing = new AbortController();
  const log: LogEntry[] = [];
  const keys = await KeyStore.open(folder);
  const admission = new Admission(resolveLimits({ bodyBytes: maxBodyBytes, ...limits }, maxBodyBytes));
  const service = await openService({
    ...{ engine: new ScriptedEngine(), dataFolder: folder, apiKey: 'test-key', keys, admission },
    trainingData: await resolveSources(trainingData),
    bodyLimits: { chat: maxBodyBytes, preview: maxBodyBytes },
    connections: new Connections(admission.limits.connections),
    ...{ defaultEntity: 'local', priorityScheduling: false, closing: closing.signal },
    log: (entry) => void log.push(entry),
  });
  const { fetch: answer } = createApp(service);
  const listening = await Listening.start({
    ...{ fetch: answer, host: '127.0.0.1', port: 0, receiveTimeoutMs: 60_000, stallTimeoutMs: 60_000 },
    log: service.log,
  });
  const close = async () => {
    const reason = new ServiceError(503, 'shutting_down', 'The test is over.');
    closing.abort(reason);
    const stopped = listening.stop({ timeoutMs: 100, reason });
    await service.queue.close();
    await stopped;
    await service.store.close();
    keys.close();
  };
  onTestFinished(close);
  const { call } = callsTo(listening.url);
  const createModel = async (name = 'agent'): Promise<Json> => {
    const fields = { project: 'desk', name, base_model: baseModel.id };
    const { status, body } = await call('POST', '/v1/preview/models', fields);
    if (status !== 200) throw new Error(JSON.stringify([body, log]));
    return body;
  };
  return { service, dataFolder: folder, log, call, createModel, close };
}
