import type { LookupAddress } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';

/**
 * What is no address of the public internet: this machine, private and shared networks, links, multicast,
 * documentation and what is reserved, from the IANA registries of special-purpose addresses (RFC 6890) as of
 * November 2026. Of IPv6 that is all but 2000::/3; and in it what carries an IPv4 address within (6to4, Teredo), as
 * do IPv4-mapped addresses and NAT64's 64:ff9b::/96 outside of it.
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

/** Whether an address is one of the public internet. */
export function isPublic(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !specialAddresses.check(address, 'ipv4');
  // One with a zone, fe80::1%eth0, is of this machine's links.
  if (family !== 6 || address.includes('%')) return false;
  return globalIpv6.check(address, 'ipv6') && !specialAddresses.check(address, 'ipv6');
}

/** Whether a list holds an address itself. An IPv4-mapped one is not the IPv4 address it maps. */
export function holds(list: BlockList, address: string): boolean {
  const family = isIP(address);
  if (family === 0 || address.includes('%') || /^::ffff:/i.test(address)) return false;
  return list.check(address, family === 4 ? 'ipv4' : 'ipv6');
}

/** Addresses and networks (`10.0.0.0/8`) as a list. Throws a RangeError that names what is neither. */
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
 * Looks names up for a connection, which then goes to just what was looked at here. A name is refused where one of its
 * addresses is neither public nor on the list: an answer of the DNS that changes between a check and its use is of no
 * use to anybody, for there is nothing between them.
 */
export function guardedLookup(lookup: LookupFunction, allowed: BlockList): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, found, family) => {
      if (error) return callback(error, '', 0);
      const addresses: LookupAddress[] =
        typeof found === 'string' ? [{ address: found, family: family ?? isIP(found) }] : found;
      const [first] = addresses;
      if (!first || !addresses.every(({ address }) => isPublic(address) || holds(allowed, address)))
        return callback(new Error(notPublic(hostname)), '', 0);
      if (options.all) callback(null, addresses);
      else callback(null, first.address, first.family);
    });
  };
}

const notPublic = (hostname: string) =>
  `${hostname} leads to an address that is not one of the public internet, and that the operator has not allowed (serve --allow-data-host ${hostname}=<address>)`;
