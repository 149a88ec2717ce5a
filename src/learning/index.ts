export * from './datum.ts';
