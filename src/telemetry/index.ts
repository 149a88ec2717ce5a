export * from './names.ts';
export * from './span.ts';
