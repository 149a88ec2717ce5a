import { createLiveView } from './live.ts';
import { canRepaint, createJsonView } from './open-progress.ts';
import { createPlainView } from './plain.ts';
import { type Line, paint, showsColors } from './text.ts';
import type { ProgressView } from './view.ts';

export { type Comparison, comparisonLines, type Evaluated, type NextCommand } from './comparison.ts';
export {
  type OpenProgressOptions,
  openProgress,
  type ProgressOption,
  writeJsonLine,
} from './open-progress.ts';
export type {
  Alarm,
  AlarmKind,
  EvaluationScore,
  GroupComparison,
  NoSignalCause,
  RunEndReason,
  RunEvent,
  RunListener,
  RunValidation,
  StepReport,
  VersionChange,
} from './run-event.ts';
export type { ProgressView } from './view.ts';

export interface ProgressOptions {
  /** JSON lines instead of a view for people. Default false. */
  json?: boolean;
  /** What a live view is called until the run has said its model. Default: nothing. */
  title?: string;
  /** Default standard output. */
  stream?: NodeJS.WriteStream;
}

/** The view that suits where the output goes: repainted on a terminal, plain lines in a pipe, or JSON lines. */
export function showProgress({
  json = false,
  title = '',
  stream = process.stdout,
}: ProgressOptions = {}): ProgressView {
  if (json) return createJsonView(stream, process.stderr);
  return canRepaint(stream) ? createLiveView(stream, { title }) : createPlainView(stream);
}

/** Writes lines as a stream can show them. */
export function printLines(lines: readonly Line[], stream: NodeJS.WriteStream = process.stdout): void {
  const colors = showsColors(stream);
  stream.write(lines.map((line) => `${paint(line, colors)}\n`).join(''));
}
