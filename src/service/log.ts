/** One line of the service's own log. Keys and bodies never stand in it. */
export interface LogEntry {
  level: 'info' | 'warn' | 'error';
  /** What happened, in snake case. */
  event: string;
  [detail: string]: string | number | boolean | null;
}

export type ServiceLog = (entry: LogEntry) => void;
