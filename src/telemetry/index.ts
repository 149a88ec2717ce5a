export * from './metrics.ts';
export * from './names.ts';
export * from './span.ts';
