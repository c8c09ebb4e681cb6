// Runs the configurations beside the tests with the real promptfoo, offline, and keeps what it asked and judged.
//
//   npm install promptfoo@0.119.0 axios --omit=optional --prefix SCRATCH
//   node tests/interop/promptfoo_fixtures.mjs SCRATCH                  writes tests/imports/promptfoo/*.results.json
//   node tests/interop/promptfoo_fixtures.mjs SCRATCH FILE.yaml ...    runs other configurations and prints the same
//
// Every configuration must ask the provider `echo` only, so that no model is called.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const [scratch, ...given] = process.argv.slice(2);
if (!scratch) {
  console.error('usage: node promptfoo_fixtures.mjs FOLDER_WITH_PROMPTFOO [CONFIGURATION ...]');
  process.exit(2);
}
const installed = join(resolve(scratch), 'node_modules', 'promptfoo');
const about = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
const command = join(installed, about.bin.promptfoo);
const fixtures = join(dirname(fileURLToPath(import.meta.url)), '..', 'imports', 'promptfoo');
const recorded = ['asserts', 'countries', 'scenarios', 'chats', 'javascript'].map((name) => join(fixtures, `${name}.yaml`));

function run(file) {
  const folder = mkdtempSync(join(tmpdir(), 'promptfoo-'));
  const out = join(folder, 'out.json');
  const quiet = { PROMPTFOO_DISABLE_TELEMETRY: '1', PROMPTFOO_DISABLE_UPDATE: '1', PROMPTFOO_CONFIG_DIR: folder };
  const words = ['eval', '-c', file, '-o', out, '--no-cache', '--no-progress-bar', '--no-table'];
  const options = { cwd: dirname(file), env: { ...process.env, ...quiet }, stdio: ["ignore", "ignore", "inherit"] };
  try {
    execFileSync(process.execPath, [command, ...words], options);
  } catch (problem) {
    if (problem.status !== 100) throw problem; // 100 says that some test did not pass
  }
  const results = JSON.parse(readFileSync(out, 'utf8')).results.results;
  results.sort((one, other) => one.testIdx - other.testIdx || one.promptIdx - other.promptIdx);
  return { promptfoo: about.version, results: results.map(kept) };
}

function kept(row) {
  const judged = row.gradingResult?.componentResults ?? [];
  return {
    test: row.testIdx,
    prompt: row.promptIdx,
    asked: row.prompt.raw,
    answered: row.response?.output,
    passed: row.success,
    score: row.score,
    asserts: judged
      .filter((one) => one.assertion && one.assertion.type !== 'assert-set')
      .map((one) => ({ type: one.assertion.type, passed: one.pass })),
  };
}

for (const file of given.length ? given.map((name) => resolve(name)) : recorded) {
  const text = `${JSON.stringify(run(file), null, 1)}\n`;
  if (given.length) {
    process.stdout.write(text);
  } else {
    const name = join(fixtures, `${basename(file, '.yaml')}.results.json`);
    writeFileSync(name, text);
    console.log(`written: ${name}`);
  }
}
