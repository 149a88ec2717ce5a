/**
 * Preloaded into a process and its threads: imports of the packages that `HIDDEN_PACKAGES` names fail as if they were
 * not installed, and those that `BROKEN_PACKAGES` names as if they did not work on this machine.
 */
import { registerHooks } from 'node:module';

const named = (variable: string) => process.env[variable]?.split(',') ?? [];

registerHooks({
  resolve(specifier, context, next) {
    if (named('HIDDEN_PACKAGES').includes(specifier))
      throw Object.assign(
        new Error(`Cannot find package '${specifier}' imported from ${context.parentURL}`),
        {
          code: 'ERR_MODULE_NOT_FOUND',
        },
      );
    if (named('BROKEN_PACKAGES').includes(specifier))
      throw Object.assign(new Error('libm.so.6: not found'), { code: 'ERR_DLOPEN_FAILED' });
    return next(specifier, context);
  },
});
