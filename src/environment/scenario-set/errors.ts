import { MartingaleError } from '../../contract/index.ts';

/** A scenario set that cannot be built as asked, or cannot give what it is asked for. */
export class ScenarioSetError extends MartingaleError {
  constructor(message: string, options?: ErrorOptions) {
    super('invalid_scenario_set', message, options);
  }
}

/** A position that belongs to another set, or that the set can no longer be brought to. */
export class ScenarioPositionError extends MartingaleError {
  constructor(message: string, options?: ErrorOptions) {
    super('scenario_position_refused', message, options);
  }
}

/** A file of scenarios that cannot be read; `line` is counted from 1 and null where the whole file is meant. */
export class ScenarioFileError extends MartingaleError {
  readonly path: string;
  readonly line: number | null;

  constructor(path: string, line: number | null, what: string, options?: ErrorOptions) {
    super('invalid_scenario_file', `${line === null ? path : `${path}:${line}`}: ${what}`, options);
    this.path = path;
    this.line = line;
  }
}
