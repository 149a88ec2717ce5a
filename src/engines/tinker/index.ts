import '../../platform/check-node.ts';

export { combineEngines } from '../combined-engine.ts';
export { createTinkerEngine, type TinkerEngineOptions } from './tinker-engine.ts';
