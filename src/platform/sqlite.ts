import type * as Sqlite from 'node:sqlite';

// Not imported: a Node without `node:sqlite` would fail at that before `check-node.ts` can say what is wrong.
const sqlite: typeof Sqlite = process.getBuiltinModule('node:sqlite');

export const DatabaseSync = sqlite.DatabaseSync;
export type DatabaseSync = Sqlite.DatabaseSync;
