// Compiles apps, libs and test to dist when the sources differ from what dist was built from (`npm run build`).
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { isProgram, main, root } from './checkout.mjs';
import { ensureInstalled } from './install.mjs';
import { withLock } from './lock.mjs';

const SOURCES = ['apps', 'libs', 'test'];
const dist = join(root, 'dist');
const stamp = join(dist, '.build');

export async function ensureBuilt(say = console.error) {
  if (isBuilt(readSources())) return;
  await withLock(
    `build ${root}`,
    () => say('Another start of this checkout is building; waiting for it …'),
    async () => {
      const sources = readSources();
      if (!isBuilt(sources)) await build(sources, say);
    },
  );
}

/** Every source file's content by its path, with the settings that shape the output. */
function readSources() {
  const sources = new Map();
  for (const dir of SOURCES)
    for (const file of filesBelow(join(root, dir))) sources.set(relative(root, file), readFileSync(file));
  return sources;
}

function fingerprint(sources) {
  const hash = createHash('sha256');
  for (const file of ['.swcrc', 'package-lock.json', 'tools/build.mjs']) hash.update(readFileSync(join(root, file)));
  for (const [path, content] of sources) hash.update(`\0${path}\0${content.length}\0`).update(content);
  return hash.digest('hex');
}

const isBuilt = (sources) => existsSync(stamp) && readFileSync(stamp, 'utf8') === fingerprint(sources);

async function build(sources, say) {
  const since = Date.now();
  const output = await compile(sources);
  // Each file is replaced in one step and unchanged ones are left alone, so a running pod never meets a half of one.
  // The stamp goes first: after a crash in the middle dist counts as not built.
  rmSync(stamp, { force: true });
  for (const [path, content] of output) replace(join(dist, path), content);
  for (const file of filesBelow(dist)) if (!output.has(relative(dist, file))) rmSync(file);
  writeFileSync(stamp, fingerprint(sources));
  say(`Built ${sources.size} files in ${((Date.now() - since) / 1000).toFixed(1)} s.`);
}

/** TypeScript becomes JavaScript with a source map; Lua scripts and other files go along as they are. */
async function compile(sources) {
  const { transform } = createRequire(join(root, 'package.json'))('@swc/core');
  const output = new Map();
  const compileOne = async ([path, content]) => {
    if (path.endsWith('.d.ts')) return;
    if (!path.endsWith('.ts')) return output.set(path, content);
    const filename = join(root, path);
    const js = path.replace(/\.ts$/, '.js');
    const sourceFileName = relative(dirname(join(dist, js)), filename);
    const { code, map } = await transform(content.toString(), { filename, sourceFileName, cwd: root });
    output.set(js, Buffer.from(`${code}//# sourceMappingURL=${js.split('/').at(-1)}.map\n`));
    output.set(`${js}.map`, Buffer.from(map));
  };
  await Promise.all([...sources].map(compileOne));
  return output;
}

function replace(file, content) {
  if (existsSync(file) && readFileSync(file).equals(content)) return;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.next`, content);
  renameSync(`${file}.next`, file);
}

function filesBelow(dir) {
  if (!existsSync(dir)) return [];
  const entries = readdirSync(dir, { withFileTypes: true, recursive: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .sort();
}

if (isProgram(import.meta.url)) {
  await main(async () => {
    await ensureInstalled();
    await ensureBuilt();
  });
}
