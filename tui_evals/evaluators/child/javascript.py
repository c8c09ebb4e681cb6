"""The engine process: runs JavaScript for one answer after another, each in a context of its own.

The engine has the language and nothing else: no files, no network, no `require`, no `process`. The process around it is
confined like the one for code of models. A context is thrown away with its answer, so nothing that code changes, a
prototype or a global, reaches the next one.
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import select
import signal
import sys
import time
from typing import Any, NoReturn

from .main import Channel, confine_model_code

IDLE_SECONDS = 60
STACK_BYTES = 1_000_000
PROCESS_BYTES = 1_500_000_000
_OUT_OF_MEMORY = "InternalError: out of memory"
_INTERRUPTED = "InternalError: interrupted"
_ES_MODULE = re.compile(r"^[ \t]*(?:export\b|import[\s{*'\"])", re.MULTILINE)
# The engine names a module <input>; the last line uses that to access its exports.
_EXPORTED = "\nimport * as ownExports from '<input>'; globalThis[Symbol.for('exported')] = ownExports;"
_HARNESS = r"""
((text) => {
  const { parse, stringify } = JSON;
  const job = parse(text);
  const outcome = {};
  const printed = [];
  const describe = (value) => {
    if (typeof value === 'function') return 'a function';
    if (typeof value === 'bigint') return `${value}n`;
    let shown;
    try { shown = typeof value === 'number' ? String(value) : stringify(value); } catch { shown = 'an object'; }
    return shown === undefined ? String(value) : shown.slice(0, 200);
  };
  const print = (...parts) => {
    if (printed.length < 100)
      printed.push(parts.map((part) => (typeof part === 'string' ? part : describe(part))).join(' ').slice(0, 2000));
  };
  globalThis.console = { log: print, info: print, warn: print, error: print, debug: print };

  const make = (body) => new Function('output', 'context', 'process', body);
  const compile = (source) => {
    const code = source.trimEnd();
    if (code.includes('\n')) return make(code);
    const line = code.trim().replace(/[;\s]+$/, '');
    if (!/^(const|let|var)\s/.test(line)) return make(`return ${line}`);
    for (let at = line.lastIndexOf(';'); at > 0; at = line.lastIndexOf(';', at - 1)) {
      const before = line.slice(0, at + 1), last = `return ${line.slice(at + 1)}`;
      try { make(before), make(last); } catch { continue; } // this ; is inside a text
      return make(`${before} ${last}`);
    }
    return make(line);
  };
  const exported = ({ source, es, name }) => {
    const module = { exports: {} };
    if (!es) new Function('module', 'exports', source)(module, module.exports);
    const all = es ? globalThis[Symbol.for('exported')] : module.exports;
    const places = [all, all && all.default];
    const named = name ? places.map((place) => place && place[name]) : [];
    const found = [...named, ...places].find((one) => typeof one === 'function');
    if (!found) throw new Error(name ? `it exports no function ${name}` : 'it exports no function');
    return found;
  };
  const verdict = (value) => {
    if (typeof value === 'boolean') return { passed: value };
    if (Number.isFinite(value)) return { score: value };
    const graded = value !== null && typeof value === 'object' && typeof value.pass === 'boolean';
    if (graded && Number.isFinite(value.score) && typeof value.reason === 'string')
      return { passed: value.pass, score: value.score, reason: value.reason.slice(0, 2000) };
    return { unusable: describe(value) };
  };
  const text_of = (value) => (typeof value === 'string' ? value : stringify(value));
  const wanted = {
    verdict,
    text: (value) => ({ text: text_of(value) ?? describe(value) }),
    value: (value) => ({ value: value === undefined ? null : value }),
  }[job.wants];

  const work = async () => {
    let steps, last;
    try {
      steps = job.transforms.map(compile);
      last = job.code === null ? null : compile(job.code);
    } catch (problem) {
      outcome.invalid = String(problem);
      return;
    }
    let [value, ...others] = job.given;
    if (job.json && typeof value === 'string') {
      try { value = parse(value); } catch { /* it stays a text */ }
    }
    for (const step of steps) {
      outcome.during = 'transform';
      value = await step(value, ...others);
      if (value === null || value === undefined) throw new Error(`it returned ${value}`);
    }
    outcome.during = 'code';
    if (job.module) last = exported(job.module);
    outcome.done = wanted(last ? await last(value, ...others) : value);
  };
  work().catch((problem) => { outcome.threw = String(problem).slice(0, 2000); });
  return () => stringify({ ...outcome, printed: printed.join('\n').slice(-2000) });
})
"""


class _Stopped(Exception):
    """The code was stopped; the message says why."""


def run(job: dict[str, Any], seconds: float, memory: int) -> dict[str, Any]:
    """The outcome of one job, in a context that ends with it."""
    import quickjs

    context = quickjs.Context()
    context.set_memory_limit(memory)
    context.set_max_stack_size(STACK_BYTES)
    context.set_time_limit(seconds)
    started = time.process_time()

    def work_off() -> None:
        while context.execute_pending_job():
            if time.process_time() - started > seconds:
                raise _Stopped(_INTERRUPTED)

    try:
        if module := job.get("module"):
            module["es"] = _ES_MODULE.search(module["source"]) is not None
            if module["es"]:
                context.module(module["source"] + _EXPORTED)
                work_off()
        read = context.eval(_HARNESS)(json.dumps(job))
        work_off()
        outcome: dict[str, Any] = json.loads(read())
    except quickjs.JSException as problem:
        told = str(problem).strip()
        if not told.startswith((_INTERRUPTED, _OUT_OF_MEMORY)):
            return {"invalid" if told.startswith("SyntaxError") else "threw": told.partition("\n")[0][:2000]}
        outcome = {"threw": told}
    except (_Stopped, MemoryError) as problem:
        outcome = {"threw": _OUT_OF_MEMORY if isinstance(problem, MemoryError) else str(problem)}
    threw = str(outcome.get("threw", ""))
    if threw.startswith(_OUT_OF_MEMORY):
        return {"stopped": f"it needed more than {memory // 1_000_000} MB of memory"}
    if threw.startswith(_INTERRUPTED) or (
        not outcome.keys() & {"done", "threw", "invalid"} and time.process_time() - started > seconds
    ):
        return {"stopped": f"it gave no result within {seconds:g} s"}
    return outcome


def main() -> NoReturn:
    """Report readiness, and run jobs until the input ends."""
    descriptor = int(sys.argv[1])
    channel = Channel(descriptor)
    options = json.loads(sys.argv[2])
    try:
        import quickjs
    except ImportError as problem:
        channel.send({"unloadable": str(problem)})
        os._exit(1)
    quickjs.Context().eval("0")
    confine_model_code(options, [os.getpid()])
    for name, value in {"RLIMIT_DATA": PROCESS_BYTES, "RLIMIT_FSIZE": 0, "RLIMIT_CORE": 0}.items():
        _, hard_limit = resource.getrlimit(getattr(resource, name))
        allowed = value if hard_limit == resource.RLIM_INFINITY else min(value, hard_limit)
        resource.setrlimit(getattr(resource, name), (allowed, allowed))
    channel.send({"ready": True})
    while select.select([descriptor], [], [], IDLE_SECONDS)[0]:
        message = channel.receive()
        signal.alarm(math.ceil(message["wall"]) + 1)  # works even if the parent has ended
        channel.send(run(message["job"], message["seconds"], message["memory"]))
        signal.alarm(0)
    os._exit(0)
