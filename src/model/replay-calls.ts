import type { ChatCompletionRequest } from '../contract/index.ts';
import { hasCode } from '../util/error.ts';
import { canonicalJson, isObject } from '../util/json.ts';
import { readJsonLines } from '../util/json-lines.ts';
import { type OptionNames, requireOptions } from '../util/option-names.ts';
import { RunError } from '../util/run-error.ts';
import type { CompletionSource } from './completion-source.ts';
import { ModelHandle, type ModelSettings } from './model-handle.ts';
import {
  callKey,
  type RecordedCallLine,
  type RecordedCallsHeader,
  type RecordedRequest,
  recordedCallsFormat,
  recordedCallsVersion,
  recordedRequest,
} from './record-calls.ts';
import { differences, quoted, ReplaySource } from './replay-source.ts';

/** Answers from a record. Each recorded call is used once. Equal calls are used in the order of their requests. */
export interface ReplayedCalls extends CompletionSource {
  /** Names of the models in the record, in the order of their first calls. */
  readonly models: readonly string[];
  /** The recorded calls that have not been requested yet. */
  unused(): RecordedRequest[];
}

/**
 * Answers chat requests from a file written by `recordCalls`, without a model, key or network. A call is looked up by
 * its whole request, including the model's name and the seed, and by its rollout's seed. So rollouts may run in any
 * order and at any concurrency. A recorded completion also answers a streamed request, and a recorded stream an
 * unstreamed one.
 *
 * `create` rejects a call that is not in the file with RunError of code `call_not_recorded`, which describes the nearest
 * recorded call.
 *
 * @throws RunError of code `invalid_recorded_calls` for a file that cannot be read.
 */
export async function replayCalls(options: { file: string }): Promise<ReplayedCalls> {
  requireOptions('replayCalls()', options, { file: 'path' }, ['file']);
  return new Replay(await readRecordedCalls(options.file));
}

class Replay extends ReplaySource implements ReplayedCalls {
  readonly models: readonly string[];
  readonly #calls: readonly RecordedCallLine[];
  /** Unused calls by key, in order. */
  readonly #left: Map<string, RecordedCallLine[]>;

  constructor(calls: readonly RecordedCallLine[]) {
    super();
    this.#calls = calls;
    this.#left = Map.groupBy(calls, ({ key }) => key);
    this.models = [...new Set(calls.flatMap(({ request }) => request.model ?? []))];
  }

  unused(): RecordedRequest[] {
    const left = new Set([...this.#left.values()].flat());
    return this.#calls.filter((call) => left.has(call)).map(({ request, rollout }) => ({ request, rollout }));
  }

  protected override take(request: ChatCompletionRequest): RecordedCallLine {
    const call = recordedRequest(request);
    const key = callKey(call);
    const taken = this.#left.get(key)?.shift();
    if (taken) return taken;
    const times = this.#calls.filter((recorded) => recorded.key === key).length;
    const reason =
      times > 0
        ? `it was recorded ${times === 1 ? 'once' : `${times} times`} and is requested once more.`
        : describeNearest(call, this.#calls);
    throw new RunError(
      'call_not_recorded',
      `A model call is not in the record: ${reason} If the agent or the environment has changed, record the calls again.`,
    );
  }
}

const shownDifferences = 3;

/** Describes the recorded call with the fewest differences. */
function describeNearest(requested: RecordedRequest, recorded: readonly RecordedRequest[]): string {
  const plain = ({ request }: RecordedRequest): unknown =>
    JSON.parse(canonicalJson(request, { withoutNull: true }));
  const target = plain(requested);
  const compared = recorded.map((call, at) => ({
    at,
    found: [
      ...differences(target, plain(call), ''),
      ...differences(requested.rollout, call.rollout, 'the seed of its rollout'),
    ],
  }));
  const nearest = compared.sort((a, b) => a.found.length - b.found.length)[0];
  if (!nearest) return 'the record is empty.';
  const shown = nearest.found
    .slice(0, shownDifferences)
    .map(({ path, a, b }) => `${path} is ${quoted(a, 80)} and was ${quoted(b, 80)}`)
    .join('; ');
  const left = nearest.found.length - shownDifferences;
  return `the nearest is call ${nearest.at + 1} of ${recorded.length}, where ${shown}${left > 0 ? `; and ${left} more` : ''}.`;
}

/** The calls of a file, in the order of their requests. */
async function readRecordedCalls(file: string): Promise<RecordedCallLine[]> {
  const refuse = (what: string, cause?: unknown) =>
    new RunError('invalid_recorded_calls', `The file of recorded calls ${file} ${what}.`, { cause });
  const notJson = (line: number, cause: unknown) => refuse(`has line ${line}, which is not JSON`, cause);
  const sessions: RecordedCallLine[][] = [];
  try {
    for await (const { value, line } of readJsonLines(file, notJson)) {
      if (isHeader(value)) sessions.push([]);
      else if (isCall(value)) sessions.at(-1)?.push(value);
      else throw refuse(`has line ${line}, which is neither a call nor a header`);
      if (sessions.length === 0) throw refuse('does not begin with a header: it is another file');
      if (isHeader(value) && value.version !== recordedCallsVersion)
        throw refuse(
          `is of version ${value.version}; only version ${recordedCallsVersion} can be read. Record the calls again`,
        );
    }
  } catch (cause) {
    if (hasCode(cause, 'ENOENT'))
      throw refuse('does not exist. Record it first: `model.recordingTo(file)`', cause);
    throw cause;
  }
  return sessions.flatMap((calls) => calls.sort((a, b) => a.asked - b.asked));
}

function isHeader(value: unknown): value is RecordedCallsHeader {
  return isObject(value) && value.format === recordedCallsFormat && 'version' in value;
}

function isCall(value: unknown): value is RecordedCallLine {
  return (
    isObject(value) &&
    typeof value.key === 'string' &&
    'request' in value &&
    ('completion' in value || 'chunks' in value)
  );
}

export interface ReplayModelOptions {
  /** A file that `model.recordingTo(file)` wrote. */
  file: string;
  /** Name of the model to replay. Default: the only model of the file. Required if the file has several. */
  name?: string;
  /** Settings of the recorded handle. They must be the same, because they are part of the requests. */
  settings?: ModelSettings;
}

const replayModelNames = {
  file: 'path',
  name: 'text',
  settings: true,
} satisfies OptionNames<ReplayModelOptions>;

export interface ReplayedModel {
  /** For rollouts and evaluations; it cannot be trained, because it has no client. */
  model: ModelHandle;
  /** Check `replay.unused()` at the end of a test to find calls that were not made. */
  replay: ReplayedCalls;
}

/**
 * A model that answers from recorded calls, for tests of environments and rewards without a model, key or network.
 *
 *     const { model, replay } = await replayModel({ file: 'test/calls/sums.jsonl' });
 *     const { groups } = await runGroups({ environment, scenarios, rolloutsPerGroup: 4, model, seed: 1 });
 *
 * @throws RunError of code `invalid_recorded_calls` for a file that cannot be read; TypeError if `name` is required and
 * missing, or is not a model of the file.
 */
export async function replayModel(options: ReplayModelOptions): Promise<ReplayedModel> {
  requireOptions('replayModel()', options, replayModelNames, ['file']);
  const { file, name, settings } = options;
  const replay = await replayCalls({ file });
  const [only, ...others] = replay.models;
  const chosen = name ?? (others.length === 0 ? only : undefined);
  if (chosen === undefined || !replay.models.includes(chosen)) {
    const known = replay.models.map((model) => `"${model}"`).join(', ') || 'none';
    const problem = name === undefined ? 'does not have exactly one model' : `has no model "${name}"`;
    throw new TypeError(`${file} ${problem}. Set \`name\` to one of ${known}.`);
  }
  return { model: new ModelHandle({ name: chosen, completions: replay, settings }), replay };
}
