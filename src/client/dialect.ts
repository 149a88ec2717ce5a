import {
  chatFieldAliases,
  configFieldAliases,
  projectHeader,
  projectHeaderAlias,
} from '../contract/index.ts';

/**
 * `standard`: the interface's own names, for services that support `Idempotency-Key`. `deployed`: the vendor's names for
 * the same fields, for the public service. It may not support idempotency keys, so POSTs are retried only if the service
 * cannot have acted on the first attempt.
 */
export type Dialect = 'standard' | 'deployed';

export const projectHeaderOf = (dialect: Dialect): string =>
  dialect === 'deployed' ? projectHeaderAlias : projectHeader;

/** A chat request with the dialect's field names. */
export function chatBody<Body extends object>(dialect: Dialect, body: Body): object {
  return dialect === 'deployed' ? rename(body, chatFieldAliases) : body;
}

/** The config of an RL job with the dialect's field names. */
export function configBody(dialect: Dialect, config: object | null | undefined): object | null | undefined {
  return dialect === 'deployed' && config ? rename(config, configFieldAliases) : config;
}

function rename(body: object, aliases: Record<string, string>): object {
  const ours = new Map(Object.entries(aliases).map(([alias, name]) => [name, alias]));
  return Object.fromEntries(Object.entries(body).map(([name, value]) => [ours.get(name) ?? name, value]));
}
