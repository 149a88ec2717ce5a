export interface ExecOptions {
  /** Absolute path. Default: the sandbox's working directory. */
  cwd?: string;
  /** Variables besides those of the sandbox. */
  env?: Readonly<Record<string, string>>;
  /** What the command reads. Default: nothing. */
  stdin?: Uint8Array;
  /** The command and what it started are killed after this time, in milliseconds. */
  timeoutMs: number;
  /** Bytes kept of each of the two outputs; the rest is dropped. Default 65,536. */
  maxBytes?: number;
  signal: AbortSignal;
}

export interface ExecResult {
  /** Null for a command that was killed at its timeout. */
  exitCode: number | null;
  stdout: Buffer;
  stderr: Buffer;
  /** Whether some output was dropped. */
  isCut: boolean;
}

/** A place for one rollout: its own files and processes. */
export interface Sandbox {
  /**
   * Runs a command of `bash`.
   * @throws HarborError (`sandbox_failed`) if the sandbox cannot run it; the signal's reason if that aborts.
   */
  exec(command: string, options: ExecOptions): Promise<ExecResult>;
  /** Ends the sandbox and deletes its files. It may be called again. */
  close(): Promise<void>;
}

export interface SandboxSettings {
  /** Absolute path where commands run. It is made if it is not there. */
  workdir: string;
  env: Readonly<Record<string, string>>;
  /** Whether commands reach the network. */
  hasNetwork: boolean;
  signal: AbortSignal;
}

/** A way to make sandboxes. */
export interface SandboxKind {
  /** @throws HarborError (`sandbox_away`) if none can be made on this machine. */
  check(): Promise<void>;
  create(settings: SandboxSettings): Promise<Sandbox>;
}
