export type * from './api.ts';
export { type Difference, differencesOf } from './differences.ts';
export { type Exported, exportPage } from './export-page.ts';
export { keyOfGroup } from './group-file.ts';
export { type AskedAs, askedAs, type Opening, openingParts } from './opening.ts';
export { RunViews } from './run-views.ts';
export { type RunningView, startView, type ViewOptions } from './start-view.ts';
export { ViewError, type ViewErrorCode } from './view-error.ts';
