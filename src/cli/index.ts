export { describeFailure } from './fail.ts';
export { serviceUrl, wholeNumber } from './flags.ts';
export { type Interrupt, interruptedStatus, listenForInterrupt } from './interrupt.ts';
export * from './progress/index.ts';
