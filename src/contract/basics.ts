/**
 * What of the contract needs no schema, as a second door: the engine's threads and what they share with other rooms
 * come through it, and start without zod.
 */
export * from './chat/text-of.ts';
export * from './error.ts';
export * from './limits.ts';
