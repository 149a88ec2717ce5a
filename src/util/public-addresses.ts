import type { LookupAddress } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';

/**
 * Addresses outside the public internet: this machine, private and shared networks, link-local, multicast,
 * documentation and reserved ones, from the IANA special-purpose address registries (RFC 6890) as of
 * November 2026. For IPv6: everything outside 2000::/3 (which includes IPv4-mapped addresses and NAT64's
 * 64:ff9b::/96), and within it the ranges that embed IPv4 addresses (6to4, Teredo).
 */
const special = {
  ipv4: [
    '0.0.0.0/8',
    '10.0.0.0/8',
    '100.64.0.0/10',
    '127.0.0.0/8',
    '169.254.0.0/16',
    '172.16.0.0/12',
    '192.0.0.0/24',
    '192.0.2.0/24',
    '192.31.196.0/24',
    '192.52.193.0/24',
    '192.88.99.0/24',
    '192.168.0.0/16',
    '192.175.48.0/24',
    '198.18.0.0/15',
    '198.51.100.0/24',
    '203.0.113.0/24',
    '224.0.0.0/3',
  ],
  ipv6: ['2001::/23', '2001:db8::/32', '2002::/16', '2620:4f:8000::/48', '3fff::/20'],
} as const;

const globalIpv6 = listOf(['2000::/3']);
const specialAddresses = listOf([...special.ipv4, ...special.ipv6]);

/** Whether an address belongs to the public internet. */
export function isPublic(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !specialAddresses.check(address, 'ipv4');
  // An address with a zone, such as fe80::1%eth0, is link-local.
  if (family !== 6 || address.includes('%')) return false;
  return globalIpv6.check(address, 'ipv6') && !specialAddresses.check(address, 'ipv6');
}

/** Whether a list contains this very address. IPv4-mapped IPv6 addresses never match. */
export function holds(list: BlockList, address: string): boolean {
  const family = isIP(address);
  if (family === 0 || address.includes('%') || /^::ffff:/i.test(address)) return false;
  return list.check(address, family === 4 ? 'ipv4' : 'ipv6');
}

/** Parses addresses and networks (`10.0.0.0/8`) into a list. @throws RangeError for an invalid entry */
export function listOf(addresses: readonly string[]): BlockList {
  const list = new BlockList();
  for (const text of addresses) {
    const [address = '', prefix, ...rest] = text.split('/');
    const family = isIP(address);
    const widest = family === 4 ? 32 : 128;
    const length = prefix === undefined ? widest : /^\d{1,3}$/.test(prefix) ? Number(prefix) : Number.NaN;
    if (family === 0 || address.includes('%') || rest.length > 0 || !(length <= widest))
      throw new RangeError(`${JSON.stringify(text)} is neither an address nor a network such as 10.0.0.0/8`);
    list.addSubnet(address, length, family === 4 ? 'ipv4' : 'ipv6');
  }
  return list;
}

/**
 * A DNS lookup for connections that refuses a name if any of its addresses is neither public nor in
 * `allowed`. The connection uses exactly the checked addresses, so DNS rebinding between check and use is
 * impossible.
 * @param refusal The message for such a name.
 */
export function guardedLookup(
  lookup: LookupFunction,
  allowed: BlockList,
  refusal: (hostname: string) => string,
): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, found, family) => {
      if (error) return callback(error, '', 0);
      const addresses: LookupAddress[] =
        typeof found === 'string' ? [{ address: found, family: family ?? isIP(found) }] : found;
      const [first] = addresses;
      if (!first || !addresses.every(({ address }) => isPublic(address) || holds(allowed, address)))
        return callback(new Error(refusal(hostname)), '', 0);
      if (options.all) callback(null, addresses);
      else callback(null, first.address, first.family);
    });
  };
}
