export * from './content.ts';
export * from './metrics.ts';
export * from './names.ts';
export * from './remote.ts';
export * from './span.ts';
