import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';

const docs = join(import.meta.dirname, '../../docs');

interface Held {
  file: string;
  /** The names of its tests, as they stand in the file. */
  names: string[];
}

/** Per cell of the page: each file that it links, and the names behind the link. */
function heldBy(page: string): Held[] {
  return [...page.matchAll(/\]\((\.\.\/[^)]+\.spec\.ts)\)((?: “[^”]+”)*)/g)].map(([, file, names]) => ({
    file: file!,
    names: [...names!.matchAll(/“([^”]+)”/g)].map(([, name]) => name!),
  }));
}

/** The tests of a file, and what they are part of, by name. */
function testsIn(source: string): Set<string> {
  const titles = source.matchAll(
    /(?<=^|[\s(])(['"`])((?:(?!\1).)+)\1,\s*(?:async\b|\(|on[A-Z]\w*\(|servers\.play\()/gm,
  );
  return new Set([...titles].map(([, , title]) => title!));
}

it('every test that docs/known-faults.md names is there, and every fault of the page has one', () => {
  const page = readFileSync(join(docs, 'known-faults.md'), 'utf8');
  const missing = heldBy(page).flatMap(({ file, names }) => {
    const path = join(docs, file);
    const tests = existsSync(path) ? testsIn(readFileSync(path, 'utf8')) : new Set<string>();
    return names.length > 0 ? names.filter((name) => !tests.has(name)).map((name) => `${file}: ${name}`) : [file];
  });
  expect(missing).toEqual([]);
  const faults = page.split('\n').filter((line) => /^\| .*#\d/.test(line));
  expect(faults.filter((line) => heldBy(line).length === 0)).toEqual([]);
  expect(faults.length).toBeGreaterThan(30);
});
