/** The wanted states of a batch. Each row has the same number: first its wanted positions, then any others. */
export interface Selection {
  /** Number of states of each row. */
  steps: number;
  /** Index of each selected state in the batch, [batch * steps]. */
  rows: Int32Array;
  /** For each state of the batch 1 + its index in the selection, or 0: [batch * time]. */
  sources: Int32Array;
}

/** Selects states by their indices, row * time + position, which may repeat. */
export function selectStates(wanted: readonly Int32Array[], batch: number, time: number): Selection {
  const sources = new Int32Array(batch * time);
  const counts = new Int32Array(batch);
  for (const indices of wanted)
    for (const index of indices) {
      if (sources[index] !== 0) continue;
      const row = Math.floor(index / time);
      counts[row] = (counts[row] as number) + 1;
      sources[index] = counts[row] as number;
    }
  const steps = counts.reduce((most, count) => Math.max(most, count), 1);
  const rows = new Int32Array(batch * steps);
  for (let row = 0; row < batch; row++) rows.fill(row * time, row * steps, (row + 1) * steps);
  for (const [index, inRow] of sources.entries()) {
    if (inRow === 0) continue;
    const at = Math.floor(index / time) * steps + inRow - 1;
    rows[at] = index;
    sources[index] = at + 1;
  }
  return { steps, rows, sources };
}

/** Indices of states as indices of the selection, which has them. */
export const inSelection = ({ sources }: Selection, states: Int32Array): Int32Array =>
  states.map((index) => (sources[index] as number) - 1);
