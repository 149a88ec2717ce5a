import { MartingaleError } from '../../contract/index.ts';
import { describeThrown } from '../describe-thrown.ts';

/** A piece of an environment gave what the conversation cannot go on with. */
export class PieceError extends MartingaleError {
  /** `prompt`, `observe`, `stop` or `tools`. */
  readonly piece: string;

  constructor(piece: string, what: string) {
    super('invalid_piece', `\`${piece}\` ${what}`);
    this.piece = piece;
  }
}

/** A tool threw in an environment with `onToolError: 'fail'`. `cause` is what it threw. */
export class ToolError extends MartingaleError {
  readonly tool: string;

  constructor(tool: string, cause: unknown) {
    super('tool_failed', `The tool "${tool}" threw: ${describeThrown(cause)}`, { cause });
    this.tool = tool;
  }
}
