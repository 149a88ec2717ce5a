import { readFileSync } from 'node:fs';

/** Signs of the machine, noted when a run begins and again when the service starts after a lost process. */
interface MachineSigns {
  /** Id of the machine's current boot, which differs after each start; empty if unknown. */
  boot: string;
  /** How many processes the system has killed for their memory since then; null if unknown. */
  memoryKills: number | null;
}

/** The runs of a job that ended with the whole process, without a further gradient step. */
export interface LostRuns {
  /** Sum of the weights of their ends. */
  lost: number;
  ends: number;
  /** Ends while the system killed a process for its memory. */
  memoryEnds: number;
  /** How long the last one ran, in milliseconds; null before the first. */
  ranMs: number | null;
  /** Ends in a row that came after as long a run as the one before. */
  alike: number;
}

/** A job fails at this sum of weights. A job that crashes the process in each run fails at the tenth. */
export const maxLost = 8;

/** Weight of an end without a known cause. */
const unknownWeight = 1 / 8;
/** A longer run counts less: it may have met a machine that is taken away now and then. */
const longRunMs = 60_000;
/** Runs that differ by less have ended at the same place. Their time is noted every two seconds. */
const [alikeMs, alikeShare] = [2500, 0.1];

/**
 * Counts a run that ended with its process. It counts in full only if signs point to the job: the system has killed a
 * process for its memory, or three runs in a row ended after the same time. It counts nothing if the machine went away,
 * and an eighth if the cause is unknown, less after a long run.
 */
export function countEnd(
  before: LostRuns,
  run: MachineSigns & { ranMs: number },
  now: MachineSigns,
): LostRuns {
  const { ranMs } = run;
  const ends = before.ends + 1;
  if (run.boot !== now.boot) return { ...before, ends, ranMs: null, alike: 0 };
  const isAlike =
    before.ranMs !== null &&
    Math.abs(ranMs - before.ranMs) <= Math.max(alikeMs, alikeShare * Math.max(ranMs, before.ranMs));
  const alike = isAlike ? before.alike + 1 : 0;
  const byMemory = run.memoryKills !== null && now.memoryKills !== null && now.memoryKills > run.memoryKills;
  const weight = byMemory || alike >= 2 ? 1 : unknownWeight * Math.min(1, longRunMs / Math.max(1, ranMs));
  return { lost: before.lost + weight, ends, memoryEnds: before.memoryEnds + Number(byMemory), ranMs, alike };
}

/** Why a job is given up: what was seen, and no more. */
export function lostRunsMessage({ ends, memoryEnds, ranMs, alike }: LostRuns): string {
  const seen = [
    ...(memoryEnds > 0 ? [`${memoryEnds} times while the system killed a process for its memory`] : []),
    ...(alike >= 2 && ranMs !== null
      ? [`the last ${alike + 1} times after about as long a run, ${Math.round(ranMs / 1000)} s`]
      : []),
  ];
  const remedy =
    memoryEnds > 0
      ? 'Send it with fewer or shorter trajectories or examples, or to a machine with more memory'
      : 'Look for the reason in the logs of the system and the service, then send it again';
  return `The whole service ended ${ends} times while this job ran, without a further gradient step${seen.length > 0 ? `: ${seen.join(', ')}` : ''}. ${remedy}.`;
}

/** Linux tells both; other systems neither. */
export function machineSigns(): MachineSigns {
  const kills = /^oom_kill (\d+)$/m.exec(textOf('/proc/vmstat'))?.[1];
  return {
    boot: textOf('/proc/sys/kernel/random/boot_id').trim(),
    memoryKills: kills === undefined ? null : Number(kills),
  };
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
