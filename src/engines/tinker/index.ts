export * from './tinker-engine.ts';
