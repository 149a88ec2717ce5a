/**
 * The second entry of the room: inspects and writes checkpoints and tests the machine without an engine, for commands of the
 * terminal, which load it when they run.
 */
export { BaseModels } from './base-models.ts';
export { adapterConfigFile, adapterWeightsFile, readAdapter, readBaseWeights } from './checkpoint/adapter.ts';
export type { GgufType } from './checkpoint/gguf/encode-header.ts';
export { openTrainedWeights, type TrainedChange, writeMerged } from './checkpoint/merge.ts';
export { hashCheckpoint } from './checkpoint/read-checkpoint.ts';
export { writeGguf, writeGgufAdapter } from './checkpoint/write-gguf.ts';
export { defaultTrainingBytes, usableMemory } from './memory.ts';
export { type MemoryNeeds, memoryNeeds } from './needs.ts';
export { type InspectedCheckpoint, inspectCheckpoint } from './open-checkpoint.ts';
export { chosenRuntime, loadRuntime } from './runtime.ts';
export { smallModel } from './self-test/random-model.ts';
export { selfTest } from './self-test/self-test.ts';
