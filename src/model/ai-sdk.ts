import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

/**
 * The AI SDK, loaded at the first call and at once, for functions that cannot wait. Most programs get along without it
 * or load it themselves later; an `import` here would make everyone wait for it.
 */
export const aiSdk = (): typeof import('ai') => require('ai');
