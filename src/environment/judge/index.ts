export { JudgeError, JudgeOptionError } from './errors.ts';
export { type GradingJudge, gradingJudge } from './grading-judge.ts';
export type { JudgeOptions } from './options.ts';
export { type RelativeJudge, type RelativeJudgeOptions, relativeJudge } from './relative-judge.ts';
export type { JudgePrices, JudgeUsage } from './usage.ts';
