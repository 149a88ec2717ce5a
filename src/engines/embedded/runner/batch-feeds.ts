import { rotaryTables } from '../checkpoint/rotary-tables.ts';
import type { Feeds, Runtime } from '../runtime.ts';
import { type Architecture, isLocal } from '../weights/architecture.ts';
import { convolutionFeeds } from './convolution-feeds.ts';
import type { Selection } from './selection.ts';
import { type Branches, type PaddedTokens, whole } from './shared-prefixes.ts';

/** Far below any attention score. */
export const masked = -1e9;

/** What layers get of a batch: shapes, positions and the mask of attention. */
export interface BatchFeeds {
  /** For the layers that see all earlier positions. */
  global: Feeds;
  /** For the layers with local attention; the same feeds if there are none. */
  local: Feeds;
  /** For the layers with convolutions; the same feeds if there are none. */
  convolution: Feeds;
  /** For the last layer, if it computes selected states only, and what its backward pass needs beside that. */
  last: { forward: Feeds; backward: Feeds } | null;
}

/** `selection`: of the states that the last layer computes; null for all. */
export function batchFeeds(
  runtime: Runtime,
  architecture: Architecture,
  tokens: PaddedTokens,
  selection: Selection | null,
): BatchFeeds {
  const { positions: kind, heads, keyValueHeads, headWidth, local, layers, convolutions } = architecture;
  const { sequences, time, branches = [] } = tokens;
  const batch = sequences.length;
  const masks = hasBranches(tokens) ? batch : 1;
  const visible = (window: number) => {
    const mask = new Float32Array(masks * time * time);
    for (let row = 0; row < masks; row++)
      maskRow(mask.subarray(row * time * time), time, window, branches[row]);
    return runtime.float(mask, [masks, 1, time, time]);
  };
  const rotary = (own: Architecture['positions']): Feeds => {
    if (own === 'learned') return {};
    const { cosines, sines } = rotaryTables(own, headWidth, time);
    const table = (data: Float32Array) => runtime.float(data, [time, headWidth / 2]);
    return { cosines: table(cosines), sines: table(sines) };
  };
  const positions = kind === 'learned' ? null : positionsOf(tokens);
  const global: Feeds = {
    query_shape: runtime.integer([batch, time, heads, headWidth], [4]),
    key_shape: runtime.integer([batch, time, keyValueHeads, headWidth], [4]),
    visible: visible(time),
    ...(positions && { positions: runtime.integer(positions, [batch, time]) }),
    ...rotary(kind),
  };
  const isShort = !local || time <= local.window;
  const ofLocal: Feeds = local
    ? { ...global, ...rotary(local.positions), ...(isShort ? {} : { visible: visible(local.window) }) }
    : global;
  const convolution = convolutions ? convolutionFeeds(runtime, convolutions.taps, tokens) : global;
  const own = isLocal(architecture, layers - 1) ? ofLocal : global;
  const last =
    selection && selectedFeeds(runtime, architecture, tokens, { feeds: own, positions, selection });
  return { global, local: ofLocal, convolution, last };
}

/** The feeds of a layer that computes selected states only. */
function selectedFeeds(
  runtime: Runtime,
  { heads, headWidth }: Architecture,
  tokens: PaddedTokens,
  { feeds, positions, selection }: { feeds: Feeds; positions: Int32Array | null; selection: Selection },
): BatchFeeds['last'] {
  const { time } = tokens;
  const { steps, rows, sources } = selection;
  const batch = tokens.sequences.length;
  const mask = feeds.visible?.data as Float32Array;
  const visible = new Float32Array(rows.length * time);
  for (const [index, state] of rows.entries()) {
    const from = (hasBranches(tokens) ? state : state % time) * time;
    visible.set(mask.subarray(from, from + time), index * time);
  }
  const forward: Feeds = {
    ...feeds,
    query_shape: runtime.integer([batch, steps, heads, headWidth], [4]),
    visible: runtime.float(visible, [batch, 1, steps, time]),
    rows: runtime.integer(rows, [rows.length]),
  };
  if (positions) {
    const placed = rows.map((state) => positions[state] as number);
    forward.step_positions = runtime.integer(placed, [batch, steps]);
  }
  return { forward, backward: { sources: runtime.integer(sources, [sources.length]) } };
}

/** Whether a row has several sequences, so that each row has a mask of its own. */
const hasBranches = ({ branches = [] }: PaddedTokens): boolean =>
  branches.some(({ starts }) => starts.length > 1);

function positionsOf({ sequences, time, branches = [] }: PaddedTokens): Int32Array {
  const positions = new Int32Array(sequences.length * time);
  for (let row = 0; row < sequences.length; row++)
    placeRow(positions.subarray(row * time, (row + 1) * time), branches[row]);
  return positions;
}

/** Writes the position of each token in its sequence. Padding continues the last sequence. */
export function placeRow(positions: Int32Array, { shared, starts }: Branches = whole): void {
  for (const at of positions.keys()) positions[at] = at;
  for (const [sequence, start] of starts.entries())
    for (let at = start; at < (starts[sequence + 1] ?? positions.length); at++)
      positions[at] = shared + at - start;
}

/**
 * Masks what a token must not attend to [time, time]: later tokens, tokens of other sequences, and tokens of its
 * own sequence that are `window` or more positions before it.
 */
function maskRow(
  visible: Float32Array,
  time: number,
  window: number,
  { shared, starts }: Branches = whole,
): void {
  /** Where the tokens of a sequence that follow the shared ones begin, and which sequence is next. */
  let [start, next] = [shared, 0];
  for (let at = 0; at < time; at++) {
    for (; starts[next] === at; next++) start = at;
    const first = Math.max(0, shared + at - start + 1 - window);
    const row = at * time;
    visible.fill(masked, row, row + Math.min(shared, first));
    visible.fill(masked, row + shared, row + start + Math.max(0, first - shared));
    visible.fill(masked, row + at + 1, row + time);
  }
}
