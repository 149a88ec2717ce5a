import type { Agent } from 'undici';

/**
 * Connections per pool. With 128, two thousand calls took six times as long. Much larger pools are slow, because the
 * pool searches its connections one by one.
 */
const poolSize = 2048;

interface Pool {
  agent: Agent;
  inFlight: number;
}

/** A connection for one call. Release it when the answer has been read. */
interface PooledConnection {
  agent: Agent;
  release: () => void;
}

/**
 * Connection pools. A new pool is created when the others are full, so no call waits for a connection, however many
 * are in flight.
 */
export class ConnectionPools {
  readonly #newAgent: () => Agent;
  /** The first pool is never removed: once it is destroyed, calls on it fail with an error that the client is closed. */
  readonly #pools: [Pool, ...Pool[]];
  #isDestroyed = false;

  private constructor(newAgent: () => Agent) {
    this.#newAgent = newAgent;
    this.#pools = [this.#open()];
  }

  /** Loads undici, which takes as long as loading the rest of the client. */
  static async open(connectTimeoutMs: number): Promise<ConnectionPools> {
    const { Agent } = await import('undici');
    return new ConnectionPools(
      () =>
        new Agent({
          connections: poolSize,
          pipelining: 1,
          // A long completion can be silent for minutes. The deadlines of calls apply instead of these timeouts.
          headersTimeout: 0,
          bodyTimeout: 0,
          keepAliveTimeout: 30_000,
          allowH2: false,
          connect: { timeout: connectTimeoutMs },
        }),
    );
  }

  take(): PooledConnection {
    const pool = this.#isDestroyed ? this.#pools[0] : this.#withRoom();
    pool.inFlight++;
    let isHeld = true;
    const release = () => {
      if (isHeld) pool.inFlight--;
      isHeld = false;
    };
    return { agent: pool.agent, release };
  }

  async destroy(): Promise<void> {
    this.#isDestroyed = true;
    await Promise.all(this.#pools.map(({ agent }) => agent.destroy()));
  }

  #withRoom(): Pool {
    const found = this.#pools.find(({ inFlight }) => inFlight < poolSize);
    if (found) return found;
    const opened = this.#open();
    this.#pools.push(opened);
    return opened;
  }

  #open(): Pool {
    return { agent: this.#newAgent(), inFlight: 0 };
  }
}
