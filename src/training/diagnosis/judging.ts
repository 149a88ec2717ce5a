import { alarmThresholds } from './thresholds.ts';

/**
 * Whether checkpoints may be judged by a validation: not where more than half of its rollouts failed, for those that
 * are left are no fair sample.
 */
export const isJudging = ({ failedShare = 0 }: { failedShare?: number }): boolean =>
  failedShare <= alarmThresholds.failures.judgingShare;
