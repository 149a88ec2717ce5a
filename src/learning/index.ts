export * from './advantages.ts';
export * from './datum.ts';
export * from './datums.ts';
export * from './diagnostics.ts';
export * from './error.ts';
export * from './loss.ts';
export * from './resolve-config.ts';
export * from './weights.ts';
