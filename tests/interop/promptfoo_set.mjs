// Runs every configuration of tests/imports/promptfoo/set with the real promptfoo, offline and in this one process,
// and keeps in set/recorded.json what was asked, what was answered, and how every assertion judged.
//
//   npm install promptfoo@0.119.0 axios --omit=optional --prefix SCRATCH
//   node tests/interop/promptfoo_set.mjs SCRATCH
//   node tests/interop/promptfoo_set.mjs SCRATCH NAME ...              prints only these
//
// No model is called: the configurations ask the provider `echo`, or their tests hold the answers.

import { mkdtempSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const [scratch, ...names] = process.argv.slice(2);
if (!scratch) {
  console.error('usage: node promptfoo_set.mjs FOLDER_WITH_PROMPTFOO [NAME ...]');
  process.exit(2);
}
const set = resolve(dirname(fileURLToPath(import.meta.url)), '..', 'imports', 'promptfoo', 'set');
const folder = mkdtempSync(join(tmpdir(), 'promptfoo-'));
Object.assign(process.env, {
  PROMPTFOO_CONFIG_DIR: folder,
  PROMPTFOO_DISABLE_TELEMETRY: '1',
  PROMPTFOO_DISABLE_UPDATE: '1',
  PROMPTFOO_CACHE_ENABLED: 'false',
  OPENAI_API_KEY: 'none',
  ANTHROPIC_API_KEY: 'none',
});
const installed = join(resolve(scratch), 'node_modules', 'promptfoo');
const about = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
const require = createRequire(join(installed, 'package.json'));
const part = (path) => require(join(installed, 'dist', 'src', path));
const { resolveConfigs } = part('util/config/load.js');
const { evaluate } = part('evaluator.js');
const { default: Eval } = part('models/eval.js');

async function rows(name) {
  process.chdir(set);
  const { config, testSuite } = await resolveConfigs({ config: [join(set, `${name}.yaml`)] }, {});
  const { repeat } = config.evaluateOptions ?? {};
  const done = await evaluate(testSuite, new Eval(config), { maxConcurrency: 1, repeat, cache: false });
  const found = done.results.sort((one, other) => one.testIdx - other.testIdx || one.promptIdx - other.promptIdx);
  return found.map(kept);
}

function kept(row) {
  const asked = row.prompt.raw;
  const judged = asserted((row.gradingResult?.componentResults ?? []).slice());
  const told = row.gradingResult ? {} : { error: String(row.error).split('\n')[0] };
  return {
    test: row.testIdx,
    prompt: row.promptIdx,
    asked,
    passed: row.success,
    asserts: judged,
    ...told,
  };
}

function asserted(components) {
  const judged = [];
  while (components.length) {
    const one = components.shift();
    const inner = one.componentResults;
    const within = inner ? { asserts: asserted(components.splice(0, inner.length)) } : {};
    const score = one.score === Number(one.pass) ? {} : { score: one.score };
    judged.push({ type: inner ? 'assert-set' : one.assertion?.type, passed: one.pass, ...score, ...within });
  }
  return judged;
}

const all = readdirSync(set).filter((file) => file.endsWith('.yaml')).map((file) => basename(file, '.yaml')).sort();
const lines = [];
for (const name of names.length ? names : all) {
  const found = await rows(name);
  lines.push(`${JSON.stringify(name)}: [\n${found.map((row) => JSON.stringify(row)).join(',\n')}\n]`);
}
const text = `{"promptfoo": ${JSON.stringify(about.version)}, "rows": {\n${lines.join(',\n')}\n}}\n`;
if (names.length) process.stdout.write(text);
else writeFileSync(join(set, 'recorded.json'), text);
process.exit(0);
