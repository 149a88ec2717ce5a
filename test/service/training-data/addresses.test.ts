import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { holds, isPublic, listOf } from '../../../src/util/public-addresses.ts';

describe('an address is public', () => {
  test.each([
    ...[
      '1.1.1.1',
      '8.8.8.8',
      '93.184.215.14',
      '172.15.255.255',
      '172.32.0.0',
      '100.63.255.255',
      '100.128.0.0',
    ],
    ...['2606:4700:4700::1111', '2a00:1450:4001:830::200e', '2001:4860:4860::8888', '3ffe::1'],
  ])('%s is', (address) => expect(isPublic(address)).toBe(true));

  test.each([
    ...['0.0.0.0', '0.1.2.3', '10.0.0.7', '10.255.255.255', '127.0.0.1', '127.255.255.255'],
    ...['100.64.0.1', '100.127.255.255', '169.254.169.254', '172.16.0.1', '172.31.255.255', '192.168.1.1'],
    ...[
      '192.0.0.8',
      '192.0.2.1',
      '192.88.99.1',
      '198.18.0.1',
      '198.19.255.255',
      '198.51.100.1',
      '203.0.113.9',
    ],
    ...['224.0.0.1', '239.255.255.250', '240.0.0.1', '255.255.255.255'],
    ...[
      '::',
      '::1',
      '::127.0.0.1',
      '::ffff:127.0.0.1',
      '::ffff:8.8.8.8',
      '::FFFF:a00:7',
      '0:0:0:0:0:ffff:7f00:1',
    ],
    ...['64:ff9b::7f00:1', '64:ff9b::8.8.8.8', '64:ff9b:1::1', '2002:7f00:1::', '2002:808:808::1'],
    ...['2001::1', '2001:0:4136:e378:8000:63bf:3fff:fdd2', '2001:db8::1', '3fff::1', '100::1', '5f00::1'],
    ...['fc00::1', 'fd12:3456:789a::1', 'fe80::1', 'fe80::1%eth0', 'fec0::1', 'ff02::1', '2606:4700::1%1'],
    ...['', 'localhost', '127.1', '0177.0.0.1', '0x7f.0.0.1', '2130706433', '1.1.1.1 ', '1.1.1.1/32'],
  ])('%s is not', (address) => expect(isPublic(address)).toBe(false));

  test('whatever the other bits are', () => {
    const byte = fc.integer({ min: 0, max: 255 });
    const within = (...first: number[]) =>
      fc.tuple(byte, byte, byte).map((rest) => [...first, ...rest].slice(0, 4).join('.'));
    const privates = fc.oneof(within(10), within(127), within(192, 168), within(169, 254), within(0));
    const forms = privates.chain((ipv4) => {
      const [a = 0, b = 0, c = 0, d = 0] = ipv4.split('.').map(Number);
      const [high, low] = [(a << 8) | b, (c << 8) | d].map((half) => half.toString(16));
      return fc.constantFrom(
        ipv4,
        `::ffff:${ipv4}`,
        `::ffff:${high}:${low}`,
        `64:ff9b::${high}:${low}`,
        `2002:${high}:${low}::1`,
        `::${high}:${low}`,
      );
    });
    fc.assert(
      fc.property(forms, (address) => !isPublic(address)),
      { seed: 5, numRuns: 2000 },
    );
  });
});

test('a list contains addresses and networks, and matches them only in their own form', () => {
  const list = listOf(['10.0.0.7', '192.168.0.0/16', 'fd00::/8', '::1']);
  for (const address of ['10.0.0.7', '192.168.3.4', 'fd12::1', '::1', '0:0:0:0:0:0:0:1'])
    expect([address, holds(list, address)]).toEqual([address, true]);
  for (const address of [
    '10.0.0.8',
    '::ffff:10.0.0.7',
    '::FFFF:192.168.0.1',
    'fe80::1',
    '::2',
    'fd12::1%lo',
    'ten',
  ])
    expect([address, holds(list, address)]).toEqual([address, false]);
  for (const wrong of [
    '',
    'ten',
    '10.0.0',
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    'fd00::/129',
    'fe80::1%lo',
  ])
    expect(() => listOf([wrong])).toThrow(JSON.stringify(wrong));
});
