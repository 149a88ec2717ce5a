export * from './advantages.ts';
export * from './datum.ts';
export * from './datums.ts';
export * from './loss.ts';
export * from './off-policy.ts';
export * from './resolve-config.ts';
export * from './sampling-parameters.ts';
