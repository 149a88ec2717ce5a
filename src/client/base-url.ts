import { ClientOptionError } from './errors.ts';

/** Where a service is: an origin, and the path under which its `/v1/...` begins, `/v1` included. */
export interface ServiceAddress {
  origin: string;
  prefix: string;
}

/**
 * Reads a base address, given with or without `/v1` at its end.
 *
 * @throws ClientOptionError where it is no http or https address.
 */
export function parseBaseUrl(text: string, option: string): ServiceAddress {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !['http:', 'https:'].includes(url.protocol)) {
    throw new ClientOptionError(
      `${option} is "${text}". Give an http or https address such as http://127.0.0.1:8080/v1.`,
    );
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw new ClientOptionError(
      `${option} has a user, a query or a fragment. Give the address alone; the key goes into apiKey.`,
    );
  }
  const path = url.pathname.replace(/\/+$/, '').replace(/\/v1$/, '');
  return { origin: url.origin, prefix: `${path}/v1` };
}
