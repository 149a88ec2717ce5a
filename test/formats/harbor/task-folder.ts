import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';

const verifier = `#!/bin/bash
[ "$(cat /app/answer.txt)" = "$(cat /tests/expected.txt)" ] && echo 1 || echo 0
[ "$(cat /app/answer.txt)" = 42 ] && echo '{"reward": 1, "style": 0.5}' > /logs/verifier/reward.json || echo 0.25 > /logs/verifier/reward.txt
`;

const plain = {
  'task.toml':
    'schema_version = "1.4"\n[environment]\nnetwork_mode = "no-network"\nenv = { QUESTION = "6*7" }\n',
  'instruction.md': 'Write the answer to answer.txt.',
  'environment/Dockerfile': 'FROM ubuntu:24.04\nWORKDIR /app\nCOPY given.txt .\n',
  'environment/given.txt': '42',
  'tests/test.sh': verifier,
  'tests/expected.txt': '42',
};

/** A folder with one task, whose files may differ from those of the plain one. */
export async function taskFolder(files: Record<string, string> = {}): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'harbor-test-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries({ ...plain, ...files })) {
    const path = join(folder, 'answer', name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  }
  return folder;
}
