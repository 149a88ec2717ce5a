import type { RunRow } from '../../api.ts';
import { Tag } from './tag.tsx';

const words = {
  running: ['plain', 'Running'],
  finished: ['good', 'Finished'],
  stopped: ['warn', 'Stopped'],
  early_stop: ['good', 'Ended early'],
  budget: ['warn', 'Budget used up'],
  failed: ['bad', 'Failed'],
  crashed: ['bad', 'Crashed'],
  broken: ['bad', 'Cannot be read'],
} as const satisfies Record<RunRow['status'], readonly [string, string]>;

/** How a run stands, in a word; why, where the run says so. */
export function StatusTag({ run: { status, because } }: { run: Pick<RunRow, 'status' | 'because'> }) {
  const [is, word] = words[status];
  if (status === 'running')
    return (
      <span class="tag running">
        <i class="pulse" aria-hidden="true" />
        {word}
      </span>
    );
  return (
    <Tag is={is} {...(because ? { title: because } : {})}>
      {word}
    </Tag>
  );
}
