export { printable, printableLines } from '../contract/index.ts';
export { makeFolder } from '../evaluation/index.ts';
export { describeFailure } from './fail.ts';
export { serviceUrl, wholeNumber } from './flags.ts';
export {
  type Interrupt,
  type InterruptOptions,
  type InterruptReason,
  listenForInterrupt,
} from './interrupt.ts';
export { leaveBehind } from './leave-behind.ts';
export * from './progress/index.ts';
