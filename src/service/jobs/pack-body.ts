import { type ParsedTrajectory, trainingLimits } from '../../contract/index.ts';
import type { BaseModel } from '../../engines/engine.ts';
import type { Caller } from '../../util/fair-queue.ts';
import { isObject } from '../../util/json.ts';
import { TimeSlices } from '../../util/time-slices.ts';
import { forThread, type ReceivedBody, type ThreadBody } from '../bodies/bodies.ts';
import { invalidField, omitted, RequestValidationError } from '../errors.ts';
import { textWithTools } from '../json/exact-tools.ts';
import { fromPieces, type Pieces } from '../json/pieces.ts';
import { parseJson, wholeBytes } from '../json/read-text.ts';
import { ReadingThread } from '../reading-thread.ts';
import { refuseUnknownFields } from '../validation.ts';
import { type ChoiceContext, checkTrajectory } from './choices.ts';
import { gzip } from './gzip.ts';
import { checkedParts, groupsField, readGroups } from './read-groups.ts';

/** Largest trajectory of a job in bytes; it is read by itself when the job starts. */
const maxTrajectoryBytes = 64 * 1024 ** 2;

/** Largest size of a body without its groups, in characters. */
const maxRestLength = 16 * 1024 ** 2;

interface PackOptions {
  /** A job has a line for each trajectory and an empty one after each group; a log has a line for each group. */
  form: 'job' | 'log';
  /** Names of the body's fields. */
  known: ReadonlySet<string>;
}

/**
 * Decides by the fields of a body whether its groups are read, before they are. The list of groups in it is a placeholder
 * that is empty only if the real list is. Gives what choices are checked against; null skips that.
 */
type Decide = (fields: unknown) => Promise<ChoiceContext | null>;

/** The groups of a body. */
export interface PackedBody {
  /** The lines of the groups, as one gzip member. */
  content: Uint8Array<ArrayBuffer>;
  /** Length of the body. */
  bytes: number;
  groups: number;
  trajectories: number;
  /** The trajectories of each group, then null. Only for a body that was small enough to be read here. */
  parts: (ParsedTrajectory | null)[] | null;
}

/**
 * Reads a body with a list of groups: a small one here, a large one in a thread. Null if it has no such list.
 * @throws RequestValidationError for invalid JSON, then what `decide` throws, then RequestValidationError for groups that
 * do not fit their schema, then the first error of a choice that cannot be trained on.
 */
export async function packBody(
  received: ReceivedBody,
  { caller, ...options }: PackOptions & { caller: Caller },
  decide: Decide,
): Promise<PackedBody | null> {
  const { content, bytes } = received;
  if (Buffer.isBuffer(content) && bytes <= wholeBytes) return packHere(content, options, decide);
  let context: ChoiceContext | null = null;
  const answer = async (asked: unknown): Promise<unknown> => {
    const question = asked as BodyQuestion;
    if ('hash' in question) return (await context?.constraints.find(question.hash)) !== undefined;
    context = await decide(await fromPieces(question.fields));
    return context && { base: context.base, logitsProcessors: context.engine.logitsProcessors };
  };
  return thread.run({ body: forThread(received), ...options }, bytes, { caller, answer });
}

/** A large body to read. */
export type BodyTask = PackOptions & { body: ThreadBody };

/** What the thread asks: what to check choices against, and whether a constraint is known. */
export type BodyQuestion = { fields: Pieces } | { hash: string };

/** The answer about the fields. */
export type CheckedAgainst = { base: BaseModel; logitsProcessors: readonly string[] } | null;

const thread = new ReadingThread<BodyTask, PackedBody | null>('body');

/** Reads a body in this thread. */
export async function packHere(
  content: Buffer,
  { form, known }: PackOptions,
  decide: Decide,
): Promise<PackedBody | null> {
  const slices = new TimeSlices();
  if (slices.over) await slices.pause();
  const body = parseJson(content, { maxValues: Number.POSITIVE_INFINITY });
  const { fields, list } = fieldsOf(body, known);
  const context = await decide(fields);
  if (list === null) return null;
  if (list.length > trainingLimits.groups) throw tooMany;
  const packed = { bytes: content.length, groups: 0, trajectories: 0 };
  const parts: PackedBody['parts'] & object = [];
  let error: unknown = null;
  const lines = async function* () {
    if (slices.over) await slices.pause();
    const groups = list.map((value, index) => ({ value, path: [groupsField, index] }));
    for (const part of form === 'job' ? checkedParts(readGroups(groups)) : readGroups(groups)) {
      if (slices.over) await slices.pause();
      if (part.type === 'group') {
        packed.groups++;
        parts.push(null);
        yield form === 'job' ? '\n' : `${textWithTools(part.value)}\n`;
      } else {
        packed.trajectories++;
        parts.push(part.read);
        if (context && error === null)
          await checkTrajectory(part.read, part.path, context).catch((cause: unknown) => {
            error = cause;
          });
        if (form === 'job') yield trajectoryLine(part);
      }
    }
  };
  const packedContent = await gzip(lines());
  if (error !== null) throw error;
  return { ...packed, content: packedContent, parts };
}

function trajectoryLine({ path, value }: { path: (string | number)[]; value: unknown }): Buffer {
  const line = Buffer.from(`${textWithTools(value)}\n`);
  if (line.length <= maxTrajectoryBytes) return line;
  throw invalidField(
    path,
    `has ${line.length} bytes; a trajectory may have at most ${maxTrajectoryBytes}`,
    omitted.object,
  );
}

/** The fields of a body, without what is in its list of groups, and the list; null if there is none. */
function fieldsOf(body: unknown, known: ReadonlySet<string>): { fields: unknown; list: unknown[] | null } {
  if (!isObject(body)) return { fields: body, list: null };
  const { [groupsField]: list, ...rest } = body;
  if (!Array.isArray(list)) return { fields: body, list: null };
  refuseUnknownFields(rest, known);
  if (JSON.stringify(rest).length > maxRestLength)
    throw invalidField(
      [],
      `is too long: the fields other than ${groupsField} may have at most ${maxRestLength} characters`,
      omitted.object,
    );
  return { fields: { ...rest, [groupsField]: list.length === 0 ? [] : omitted.list }, list };
}

/** As for any list that is too long, but without its length, which was not counted. */
const tooMany = new RequestValidationError([
  {
    loc: ['body', groupsField],
    msg: `has more than ${trainingLimits.groups} elements, the limit`,
    type: 'too_long',
    input: omitted.list,
    ctx: { max_length: trainingLimits.groups },
  },
]);
