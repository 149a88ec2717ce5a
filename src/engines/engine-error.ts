import { MartingaleError } from '../contract/index.ts';

/** What an engine cannot do, or was asked wrongly. */
export class EngineError extends MartingaleError {}
