import { ServiceError } from './errors.ts';

/** @throws ServiceError `bad_option` for a key that no request could carry. It is not shown. */
export function checkApiKey(apiKey: string | undefined): string | undefined {
  if (!apiKey || /^[\x21-\x7e]+$/.test(apiKey)) return apiKey;
  throw new ServiceError(
    500,
    'bad_option',
    'apiKey (MARTINGALE_API_KEY of `serve`) has characters that no request can carry. It is letters, digits and signs of ASCII, without spaces and line breaks: look for one at its end.',
  );
}
