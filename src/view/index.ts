export type * from './api.ts';
export { branchesOf } from './branches.ts';
export { differencesOf } from './differences.ts';
export { exportPage } from './export-page.ts';
export { keyOfGroup } from './group-file.ts';
export { type AskedAs, askedAs, type Opening, openingParts } from './opening.ts';
export { RunViews } from './run-views.ts';
export { startView } from './start-view.ts';
