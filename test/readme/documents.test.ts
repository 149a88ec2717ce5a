import { access, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { metricName, spanName } from '../../src/telemetry/index.ts';
import { root } from '../support/programs.ts';
import { documents, headingsOf, textOf, toAnchor, typeScriptSnippets } from './documents.ts';
import { namesIn, tablesOf } from './tables.ts';

describe('README and docs', () => {
  it('begin with a README of at most 250 lines', async () => {
    expect((await textOf('README.md')).trimEnd().split('\n').length).toBeLessThanOrEqual(250);
  });

  it.each([...documents, 'AGENTS.md'])('%s names only existing files and headings', async (document) => {
    const text = (await textOf(document)).replace(/^```.*?^```$/gms, '');
    const links = [...text.matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)/g)];
    for (const [, path = '', anchor] of links) {
      const target = path === '' ? document : join(document, '..', path);
      await access(join(root, target));
      if (anchor === undefined) continue;
      expect([target, headingsOf(await textOf(target)).map(toAnchor)]).toEqual([
        target,
        expect.arrayContaining([anchor]),
      ]);
    }
  });

  it.each(documents)('%s has no two headings with the same link', async (document) => {
    const anchors = headingsOf(await textOf(document)).map(toAnchor);
    expect(anchors).toEqual([...new Set(anchors)]);
  });

  it('have no snippet twice', async () => {
    const codes = (await typeScriptSnippets()).map(({ code }) => code);
    expect(codes).toEqual([...new Set(codes)]);
  });

  it('link each page of docs from README', async () => {
    const readme = await textOf('README.md');
    for (const document of documents) expect(readme).toContain(document === 'README.md' ? '' : document);
  });

  it('are in the package', async () => {
    const { files } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
    expect(files).toEqual(expect.arrayContaining(['README.md', 'docs']));
  });
});

describe('docs/traces.md', () => {
  it('lists every metric', async () => {
    const rows = (await tablesOf('docs/traces.md')).get('Metrics') ?? [];
    expect(rows.flatMap(({ names }) => names).sort()).toEqual(Object.values(metricName).sort());
  });

  it('lists every span', async () => {
    const rows = (await tablesOf('docs/traces.md')).get('Spans') ?? [];
    const names = Object.values(spanName).map((name) => {
      if (typeof name === 'string') return name;
      return name('<>');
    });
    const told = rows.flatMap(({ names: [name = ''] }) => name.replace(/<[a-z]+>$/, '<>'));
    expect(told.filter((name) => name !== '<METHOD> <>').sort()).toEqual(names.sort());
  });
});

describe('docs/reliability.md', () => {
  it('names an existing test for each promise', async () => {
    const text = await textOf('docs/reliability.md');
    const rows = text.split('\n').filter((line) => /^\| [A-Z`]/.test(line) && !line.startsWith('| Promise'));
    expect(rows.length).toBeGreaterThan(30);
    for (const row of rows) {
      const tests = [...row.matchAll(/\]\(\.\.\/(test\/[^)]+)\)/g)].map(([, path = '']) => path);
      expect([row, tests.length]).toEqual([row, expect.toSatisfy((count: number) => count > 0)]);
      for (const path of tests) await access(join(root, path));
    }
  });
});

describe('docs/architecture.md', () => {
  it('explains each term once, in alphabetical order', async () => {
    const text = await textOf('docs/architecture.md');
    const rows = [...text.slice(text.indexOf('## Glossary')).matchAll(/^\| ([a-z][^|]*) \|/gm)];
    const terms = rows.map(([, term = '']) => term);
    expect(terms.length).toBeGreaterThan(50);
    expect(terms).toEqual([...new Set(terms)].sort());
  });

  it('lists exactly the rooms of the source', async () => {
    const entries = await readdir(join(root, 'src'), { withFileTypes: true });
    const rooms = entries.filter((entry) => entry.isDirectory()).map(({ name }) => `${name}/`);
    const rows = (await tablesOf('docs/architecture.md')).get('The house') ?? [];
    expect(rows.flatMap(({ names }) => names).sort()).toEqual(rooms.sort());
  });

  it('names only existing files and folders', async () => {
    const rooms = await readdir(join(root, 'src'));
    for (const name of namesIn(await textOf('docs/architecture.md'))) {
      const [first = '', ...rest] = name.split('/');
      if (rest.length === 0) continue;
      if (rooms.includes(first)) await access(join(root, 'src', name));
      else if (['src', 'test', 'docs', 'recipes', 'examples'].includes(first)) await access(join(root, name));
    }
  });
});
