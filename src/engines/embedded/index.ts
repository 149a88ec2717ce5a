export { createEmbeddedEngine, type EmbeddedEngineOptions } from './embedded-engine.ts';
