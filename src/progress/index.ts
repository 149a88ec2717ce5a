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
  /** Title of a live view until the model's name is known. Default: empty. */
  title?: string;
  /** Default: standard output. */
  stream?: NodeJS.WriteStream;
}

/** The view that fits the output: a live view on a terminal, else plain lines; or JSON lines. */
export function showProgress({
  json = false,
  title = '',
  stream = process.stdout,
}: ProgressOptions = {}): ProgressView {
  if (json) return createJsonView(stream, process.stderr);
  return canRepaint(stream) ? createLiveView(stream, { title }) : createPlainView(stream);
}

/** Writes lines to a stream, in color if it supports that. */
export function printLines(lines: readonly Line[], stream: NodeJS.WriteStream = process.stdout): void {
  const colors = showsColors(stream);
  stream.write(lines.map((line) => `${paint(line, colors)}\n`).join(''));
}
