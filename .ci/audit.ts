// Holds the lock file against the rules of lock-file.ts, then asks the registry for known faults of what is shipped.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { lockFaults } from './lock-file.ts';

const read = (name: string) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');
const faults = lockFaults(
  JSON.parse(read('package-lock.json')),
  JSON.parse(read('package.json')),
  read('.npmrc'),
);
for (const fault of faults) console.error(fault);
if (faults.length > 0) process.exit(1);
console.error('Every package is one of the registry, with its hash; install scripts are as reviewed.');

interface AuditReport {
  metadata?: { vulnerabilities?: Record<string, number> };
  vulnerabilities?: Record<string, { severity: string; range: string; via: unknown[] }>;
  message?: string;
  error?: { summary?: string };
}

const { stdout, error } = spawnSync('npm', ['audit', '--omit=dev', '--audit-level=high', '--json'], {
  cwd: new URL('..', import.meta.url),
  encoding: 'utf8',
  shell: process.platform === 'win32',
  timeout: 120_000,
});
const report = parse(stdout);
const counts = report?.metadata?.vulnerabilities;
if (!counts) {
  const reason = report?.message ?? report?.error?.summary ?? error?.message ?? 'it gave no report';
  console.error(`NOT AUDITED for known faults: the registry answered no audit (${reason}).`);
} else {
  const grave = Object.entries(report.vulnerabilities ?? {}).filter(([, { severity }]) =>
    ['high', 'critical'].includes(severity),
  );
  for (const [name, { severity, range }] of grave) console.error(`${name} ${range}: ${severity}`);
  console.error(`Audited: ${JSON.stringify(counts)}.`);
  if (grave.length > 0 || (counts.high ?? 0) + (counts.critical ?? 0) > 0) process.exitCode = 1;
}

function parse(text: string | null): AuditReport | undefined {
  try {
    return JSON.parse(text ?? '');
  } catch {
    return undefined;
  }
}
