/** One line of the service's log. It never contains keys or bodies. */
export interface LogEntry {
  level: 'info' | 'warn' | 'error';
  /** What happened, in snake case. */
  event: string;
  [detail: string]: string | number | boolean | null;
}

export type ServiceLog = (entry: LogEntry) => void;
