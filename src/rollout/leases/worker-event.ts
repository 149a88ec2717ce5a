/** What happens to workers, for logs. */
export interface WorkerEvent {
  /**
   * `left`: the worker has left in order. `lost`: it sent nothing for `leaseMs`; others get its rollouts. `refused`: it may
   * not join. `invalid`: its message cannot be read; another worker gets the rollout. `none`: rollouts wait, and there is no
   * worker.
   */
  type: 'joined' | 'left' | 'lost' | 'refused' | 'invalid' | 'none';
  /** Name of the worker; empty for `none` and a worker without the key. */
  worker: string;
  /** What happened, as a sentence. */
  message: string;
}

/** What a program knows of its workers. */
export interface LeaseStats {
  workers: readonly { name: string; concurrency: number; running: number; ended: number }[];
  /** Rollouts that no worker has yet. */
  waiting: number;
  /** Rollouts that a worker has. */
  running: number;
  /** How often a rollout was given again because its worker was lost or left. */
  givenAgain: number;
  /** Results that came after another had counted. */
  ignored: number;
}
