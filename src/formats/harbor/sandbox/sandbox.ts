export interface ExecOptions {
  /** Absolute path. Default: the sandbox's working directory. */
  cwd?: string;
  /** Environment variables, in addition to the sandbox's own. */
  env?: Readonly<Record<string, string>>;
  /** Standard input. Default: empty. */
  stdin?: Uint8Array;
  /** The command and what it started are killed after this time, in milliseconds. */
  timeoutMs: number;
  /** User that runs it; a user other than root needs a sandbox that builds images. Default: the image's user. */
  user?: string;
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

/** A place for one rollout, as a SandboxKind makes it: its own files and processes. */
export interface BareSandbox {
  /**
   * Runs a command of `bash`.
   * @throws HarborError (`sandbox_failed`) if the sandbox cannot run it; the signal's reason if that aborts.
   */
  exec(command: string, options: ExecOptions): Promise<ExecResult>;
  /**
   * URL, without a path, of the server on a port of the sandbox. Others may be able to reach it too.
   * @throws HarborError (`sandbox_failed`) if sandboxes of this kind expose no ports; the signal's reason.
   */
  expose(port: number, options: ExposeOptions): Promise<string>;
  /**
   * The agent has ended: further commands are ours, and the tests. A kind may let them run on programs and settings that
   * the agent could not write.
   */
  endAgent?(): void;
  /** Ends the sandbox and deletes its files. It may be called again. */
  close(): Promise<void>;
}

export interface ExposeOptions {
  /** Ends what leads to the port, if it runs here. It ends with the sandbox too. */
  signal: AbortSignal;
}

/** A sandbox as agents get it. */
export interface Sandbox extends BareSandbox {
  /** What a file holds; null if there is none. @throws HarborError (`sandbox_failed`); the signal's reason. */
  read(path: string, options: FileOptions): Promise<Buffer | null>;
  /** Writes a file, with the folders that it needs. @throws HarborError (`sandbox_failed`); the signal's reason. */
  write(path: string, content: string | Uint8Array, options: FileOptions): Promise<void>;
}

export interface FileOptions {
  /** Default 120,000. */
  timeoutMs?: number;
  signal: AbortSignal;
}

/** What a task's container is made from, and the resources that it may use. */
export interface SandboxImage {
  /** Name of an image. Null: it is built. */
  name: string | null;
  /** Folder with the Dockerfile of the image. */
  folder: string;
  /** Longest time of the build, in milliseconds. */
  buildTimeoutMs: number;
  /** Processors, MiB of memory, and MiB of files. Null: no limit. */
  cpus: number | null;
  memoryMb: number | null;
  storageMb: number | null;
}

export interface SandboxSettings {
  /** Absolute path where commands run, made if it is not there. Null: the folder that the image sets. */
  workdir: string | null;
  /** Absolute paths to which files of the task are copied. */
  copies: readonly string[];
  image: SandboxImage;
  env: Readonly<Record<string, string>>;
  /** Whether commands reach the network. */
  hasNetwork: boolean;
  signal: AbortSignal;
}

/** A way to make sandboxes. */
export interface SandboxKind {
  /** Whether it runs tasks in their images. Default: only tasks that need none can be run. */
  readonly buildsImages?: boolean;
  /** @throws HarborError (`sandbox_away`) if none can be made on this machine. */
  check(): Promise<void>;
  create(settings: SandboxSettings): Promise<BareSandbox>;
}
