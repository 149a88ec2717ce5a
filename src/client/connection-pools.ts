import { Agent } from 'undici';

/**
 * Connections of one pool. With 128, two thousand calls took six times as long; far more are slow to choose from, as
 * the pool goes through them one by one.
 */
const poolSize = 2048;

interface Pool {
  agent: Agent;
  inFlight: number;
}

/** A place for one call, on a connection of its own. Release it once the answer has been read. */
export interface PooledConnection {
  agent: Agent;
  release: () => void;
}

/**
 * Pools of connections, each made when those before it are full, so that no call waits for another's connection
 * however many are in flight.
 */
export class ConnectionPools {
  readonly #connectTimeoutMs: number;
  /** The first is always there: once it is destroyed, calls on it say that the client is closed. */
  readonly #pools: [Pool, ...Pool[]];
  #isDestroyed = false;

  constructor(connectTimeoutMs: number) {
    this.#connectTimeoutMs = connectTimeoutMs;
    this.#pools = [this.#open()];
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
    const agent = new Agent({
      connections: poolSize,
      pipelining: 1,
      // A long completion sends nothing for minutes; deadlines end calls, not these.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: 30_000,
      allowH2: false,
      connect: { timeout: this.#connectTimeoutMs },
    });
    return { agent, inFlight: 0 };
  }
}
