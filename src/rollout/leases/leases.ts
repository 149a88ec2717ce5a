import { describeThrown } from '../../environment/index.ts';
import { hasCode } from '../../util/error.ts';
import { invalidOption, OptionError, wholeNumberOption } from '../../util/option-error.ts';
import { type OptionNames, requireOptions } from '../../util/option-names.ts';
import { isLoopback, newKey } from '../../util/server-access.ts';
import { warn } from '../../util/warning.ts';
import type { RolloutExecutor } from '../executor.ts';
import { requireMilliseconds } from '../rollout-settings.ts';
import { BudgetNumbers } from '../sent/call-budgets.ts';
import { HubExecutor } from './hub-executor.ts';
import { keepKey } from './key-file.ts';
import { LeaseHub } from './lease-hub.ts';
import type { LeaseStats, WorkerEvent } from './worker-event.ts';

export interface LeasesOptions {
  /** Module that exports the environment, as `new URL('./environment.ts', import.meta.url)`. Workers load the same. */
  environment: URL;
  /** Name of the export. Default `default`. */
  exportName?: string;
  /** Address to listen on. Default 127.0.0.1. */
  host?: string;
  /** Port to listen on. Default 7410; 0 for a free one. */
  port?: number;
  /**
   * The key that workers must send: with it they get the service's key, and report rewards. Default: a new one, which
   * `apiKey` of the executor tells, and which workers of the same user on this machine find by themselves.
   */
  apiKey?: string;
  /**
   * Base URL of the model's service as workers reach it. Default: the one that the program uses, which must not be
   * 127.0.0.1 if workers are on other machines.
   */
  serviceUrl?: string;
  /** A worker that is silent for so long loses its rollouts, in milliseconds. Default 30,000. */
  leaseMs?: number;
  /** How long a worker may take to end a rollout after its deadline or cancellation, in milliseconds. Default 5,000. */
  graceMs?: number;
  /** A rollout that has been lost with so many workers fails (`worker_died`). Default 5. */
  maxLosses?: number;
  /** Rollouts that wait for so long without any worker fail (`no_workers`), in milliseconds. Default 600,000. */
  waitForWorkersMs?: number;
  /** Called when workers come and go. Default: a process warning for those that are lost or refused, or missing. */
  onEvent?: (event: WorkerEvent) => void;
}

const leasesNames = {
  environment: 'module',
  exportName: 'text',
  host: 'text',
  port: 'port',
  apiKey: true,
  serviceUrl: true,
  leaseMs: true,
  graceMs: true,
  maxLosses: true,
  waitForWorkersMs: true,
  onEvent: 'function',
} satisfies OptionNames<LeasesOptions>;

/** An executor whose rollouts run on other machines. */
export interface LeaseExecutor extends RolloutExecutor {
  /** Address for workers. */
  readonly url: string;
  /** The key of workers. */
  readonly apiKey: string;
  stats(): LeaseStats;
}

const code = 'invalid_rollout_option';

/**
 * Runs rollouts on other machines, whose workers come here for them:
 *
 *     const executor = await leases({ environment: new URL('./environment.ts', import.meta.url), host, apiKey });
 *     await train({ environment, executor, ... });
 *
 *     MARTINGALE_WORKER_KEY=... npx martingale worker environment.ts --url http://10.0.0.4:7410
 *
 * A worker leases a rollout. If the worker is silent for `leaseMs`, another gets the rollout with the same seed, and
 * the first result counts. Workers may come and go at any time; they must have the same files of the environment. They
 * call the model's service directly, and share the model's `budget`. Group rewards run in the program. Close the
 * executor when it is no longer needed: its workers then end.
 *
 * @throws OptionError, also for a port in use; errors of the environment's module.
 */
export async function leases(options: LeasesOptions): Promise<LeaseExecutor> {
  requireOptions('leases()', options, leasesNames, ['environment']);
  const {
    environment,
    exportName = 'default',
    host = '127.0.0.1',
    port = 7410,
    apiKey = newKey(),
    serviceUrl,
  } = options;
  if (!/^[\x21-\x7e]+$/.test(apiKey))
    throw new OptionError(code, '`apiKey` is empty or has characters that a header cannot carry.', {
      option: 'apiKey',
    });
  if (serviceUrl !== undefined && !/^https?:$/.test(URL.parse(serviceUrl)?.protocol ?? ''))
    throw invalidOption(code, 'serviceUrl', serviceUrl, 'Pass a URL such as http://10.0.0.5:8000.');
  const onEvent = guarded(options.onEvent ?? warnOf);
  const leaseMs = requireMilliseconds('leaseMs', options.leaseMs ?? 30_000);
  const budgets = new BudgetNumbers();
  const hub = new LeaseHub({
    leaseMs,
    graceMs: requireMilliseconds('graceMs', options.graceMs ?? 5_000),
    maxLosses: wholeNumberOption(code, 'maxLosses', options.maxLosses ?? 5, 1),
    waitForWorkersMs: requireMilliseconds('waitForWorkersMs', options.waitForWorkersMs ?? 600_000),
    budgets,
    onEvent,
  });
  // Loaded here, so that programs without workers do not load the HTTP server.
  const [{ createLeaseApp }, { environmentFiles }, { loadEnvironment }, { listen }] = await Promise.all([
    import('./lease-app.ts'),
    import('./environment-version.ts'),
    import('../sent/load-environment.ts'),
    import('../../util/listen.ts'),
  ]);
  const [{ name }, files] = await Promise.all([
    loadEnvironment(environment.href, exportName),
    environmentFiles(environment),
  ]);
  const isLocal = isLoopback(host);
  const app = createLeaseApp({ hub, apiKey, isLocal, leaseMs, environment: name, files, onEvent });
  const listening = await listen(app, { host, port, idle: true }).catch((cause: unknown) => {
    if (!hasCode(cause, 'EADDRINUSE')) throw cause;
    throw invalidOption(code, 'port', port, 'Another program uses it: stop that, or pass another port.');
  });
  const removeKey = await keepKey(listening.url, apiKey);
  hub.howToStart = `Start one: martingale worker <file> --url ${listening.url}${isLocal ? '' : `, with MARTINGALE_WORKER_KEY=${options.apiKey === undefined ? apiKey : '<the apiKey>'}`}`;
  return new HubExecutor({
    hub,
    budgets,
    environment: name,
    reach: { serviceUrl, isLocal },
    apiKey,
    listening,
    onClosed: removeKey,
  });
}

/** Wraps `onEvent`: its errors become warnings. */
const guarded =
  (onEvent: (event: WorkerEvent) => void) =>
  (event: WorkerEvent): void => {
    try {
      onEvent(event);
    } catch (error) {
      const message = `\`onEvent\` threw: ${describeThrown(error)}`;
      warn('martingale_worker_event', message);
    }
  };

function warnOf({ type, message }: WorkerEvent): void {
  if (type === 'joined' || type === 'left') return;
  warn(`martingale_worker_${type}`, message);
}
