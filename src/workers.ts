import './platform/check-node.ts';

/** Rollouts on other machines: the executor of the program. Each machine runs `martingale worker`. */
export {
  type LeaseExecutor,
  type LeaseStats,
  type LeasesOptions,
  leases,
  type WorkerEvent,
} from './rollout/leases/index.ts';
