import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { RecordedCallsError } from './record-calls-errors.ts';
import {
  type RecordedCallLine,
  type RecordedCallsHeader,
  recordedCallsFormat,
  recordedCallsVersion,
} from './record-calls-line.ts';

/** The calls of a file in the order in which they were asked. @throws RecordedCallsError */
export async function readRecordedCalls(file: string): Promise<RecordedCallLine[]> {
  const sessions: RecordedCallLine[][] = [];
  let torn: { line: number; cause: unknown } | undefined;
  let number = 0;
  const lines = createInterface({ input: createReadStream(file), crlfDelay: Number.POSITIVE_INFINITY });
  try {
    for await (const text of lines) {
      number++;
      if (torn) throw new RecordedCallsError(file, `has line ${torn.line}, which is not JSON`, torn);
      let value: unknown;
      try {
        value = JSON.parse(text);
      } catch (cause) {
        // Only the last may be half written, by a process that was killed.
        torn = { line: number, cause };
        continue;
      }
      if (isHeader(value)) sessions.push([]);
      else if (isCall(value)) sessions.at(-1)?.push(value);
      else throw new RecordedCallsError(file, `has line ${number}, which is no call and no header`);
      if (sessions.length === 0)
        throw new RecordedCallsError(file, 'does not begin with a header: it is another file');
      if (isHeader(value) && value.version !== recordedCallsVersion)
        throw new RecordedCallsError(
          file,
          `is of version ${value.version}, and this is read: ${recordedCallsVersion}. Record the calls again`,
        );
    }
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT')
      throw new RecordedCallsError(file, 'does not exist. Record it first: `model.recordingTo(file)`', {
        cause,
      });
    throw cause;
  }
  return sessions.flatMap((calls) => calls.sort((a, b) => a.asked - b.asked));
}

function isHeader(value: unknown): value is RecordedCallsHeader {
  return (
    typeof value === 'object' &&
    value !== null &&
    'format' in value &&
    value.format === recordedCallsFormat &&
    'version' in value
  );
}

function isCall(value: unknown): value is RecordedCallLine {
  return (
    typeof value === 'object' &&
    value !== null &&
    'key' in value &&
    typeof value.key === 'string' &&
    'request' in value &&
    ('completion' in value || 'chunks' in value)
  );
}
