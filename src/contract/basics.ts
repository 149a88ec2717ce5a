/**
 * The parts of the contract that need no schema. The engine's threads, and the code that they share with other rooms,
 * import this second door and start without zod.
 */
export * from './chat/text-of.ts';
export * from './error.ts';
export * from './limits.ts';
