"""`tui-evals ci init` and `ci report`: a workflow that works on a fresh runner, and its report to a pull request."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from tui_evals.cli import inputs, project
from tui_evals.cli.compare.report import annotate
from tui_evals.cli.opening import dataset_of_word
from tui_evals.cli.output import Stop, asked, say, warn, write_file
from tui_evals.cli.runs_named import runs_meant
from tui_evals.compare.baseline import baseline_sentences, drop_sentence, drop_shown
from tui_evals.datasets.discover import project_root
from tui_evals.datasets.document import Document
from tui_evals.datasets.matrix import expanded
from tui_evals.datasets.paths import DatasetError
from tui_evals.files import make_folder
from tui_evals.imports.baseline_file import baseline_text
from tui_evals.project_files import read_text
from tui_evals.reports.results import write
from tui_evals.runs.experiments import (
    Experiment,
    experiment_name,
    experiment_named,
    read_experiment,
    usual_experiment,
    with_experiment,
)
from tui_evals.runs.gate_options import OPTIONS
from tui_evals.runs.gates import why_no_baseline
from tui_evals.runs.project import Project
from tui_evals.store.baselines import dataset_key
from tui_evals.store.records import RunRow
from tui_evals.targets.base import ConfigurationError, TargetConfig
from tui_evals.targets.permissions import destination
from tui_evals.version import __version__

WORKFLOW = Path(".github", "workflows", "evals.yml")
_MARK = "# Written by `tui-evals ci init`. Running it again overwrites the file."
_SUMMARY_LIMIT = 2**20
_COMMENT_LIMIT = 65_536
_PAGES = 30


def init_github(
    name: str | None,
    *,
    install: str | None,
    baseline: Path,
    max_cost: float | None,
    targets: Sequence[str],
    force: bool,
) -> None:
    """Write the workflow, and the baseline where a run can be one; say what drop it will show."""
    here = inputs.open_project(None, trusting=False)
    experiment, words, document, source = _what_runs(here, name)
    options = [word for target in targets for word in ("--target", target)]
    keys = _keys(here, experiment, targets)
    gates, said = _gates(here, experiment, document, source, baseline)
    install = install or _installed_from() or _asked_install()
    cost = ["--max-cost", f"{max_cost:g}"] if max_cost else []
    run = [
        "tui-evals",
        "run",
        *words,
        *options,
        *gates,
        *cost,
        "--trust",
        "-o",
        "results/junit.xml",
        "-o",
        "results/report.html",
    ]
    measured = str(baseline) if "--baseline" in gates else ""
    watched = [source, str(baseline), *([] if experiment is None else [experiment.where])]
    text = workflow(install, shlex.join(run), keys, watched, measured)
    file = project_root(Path.cwd()) / WORKFLOW
    if file.exists() and not force and not read_text(file).startswith(_MARK):
        raise Stop(f"{WORKFLOW} is already there and was written by hand. --force replaces it")
    make_folder(file.parent)
    write_file(file, [text])
    say(f"wrote {WORKFLOW}", fg="green")
    for sentence in said:
        say(sentence)
    if keys:
        say(f"secrets to add in the settings of the repository: {', '.join(keys)}")
    say(f"next: git add {shlex.join(filter(None, [str(WORKFLOW), measured]))} && git commit", bold=True)


def _what_runs(here: Project, name: str | None) -> tuple[Experiment | None, list[str], Document, str]:
    """The experiment or the dataset that the workflow runs, as words of a command, with its questions."""
    try:
        file = experiment_named(Path(name), here.root) if name is not None else usual_experiment(here.root)
        if file is not None:
            experiment = read_experiment(file, here.root)
            document, source = experiment.document()
            words = [] if name is None and experiment_name(file) == "experiment" else [experiment_name(file)]
            return experiment, words, document, dataset_key(str(source), here.root)
        path = dataset_of_word(Path(name)) if name is not None else inputs.found_or_started()
        return None, [str(path)], inputs.read(path), dataset_key(str(path), here.root)
    except DatasetError as problem:
        raise Stop(str(problem)) from None


def _gates(
    here: Project, experiment: Experiment | None, document: Document, source: str, file: Path
) -> tuple[list[str], list[str]]:
    """The gates of the workflow that can fire with so few items, and what to say of them."""
    checks = {one.name: one.flag.removeprefix("--") for one in OPTIONS if one.name not in ("baseline", "max_missing")}
    own = [] if experiment is None else [name for name in experiment.options if name in checks]
    items = len(expanded(document)[0].data["items"])
    power, written = [drop_sentence(items, items)], ""
    if experiment is not None and experiment.model.baseline:
        return [], [f"gates of the experiment: {', '.join(map(checks.__getitem__, own)) or 'none'}", *power]
    if not file.exists():
        power, written = _export(here, source, file) or (power, "")
    elif not own:
        written = f"measured against {file}"
    if not file.exists():
        missing = f"no finished run of {source} can be the baseline. Run it, then run this command again"
        return ([] if own else ["--fail-on", "error"]), [missing, *power]
    gate = "--fail-on-regression" if drop_shown(items, items) is not None else "--fail-on-broken"
    chosen = [] if "fail_on_regression" in own or "fail_on_broken" in own else [gate]
    return ["--baseline", str(file), *chosen], [*filter(None, [written]), *power]


def _export(here: Project, source: str, file: Path) -> tuple[list[str], str] | None:
    """Write the baseline of the last finished run of a dataset; returns its power, and what was written."""
    with project.reader() as reader:
        runs = [run for run in reader.runs() if dataset_key(run.source, here.root, here.root) == source]
        run = next((run for run in runs if why_no_baseline(reader, run) is None), None)
        if run is None:
            return None
        write_file(file, [baseline_text(reader, run, here.root)])
        return baseline_sentences(reader, run), f"wrote {file}: the verdicts of run {run.key}"


def _keys(here: Project, experiment: Experiment | None, targets: Sequence[str]) -> list[str]:
    """The variables whose values the targets and judges send, which become secrets of the repository."""
    settings = here.settings
    try:
        configs = [inputs.target_or_stop(word, settings) for word in targets]
        judge = inputs.target_or_stop(settings.judge, settings)
        if experiment is not None:
            here = with_experiment(here, experiment)
            configs = configs or [*experiment.targets(settings)]
            judge = experiment.judge(settings) or judge
    except (ConfigurationError, DatasetError) as problem:
        raise Stop(str(problem), 3) from None
    configs = configs or [*inputs.targets_named(settings.usual_targets, settings)]
    configs.append(judge)
    wanted: list[str] = []
    for config in filter(None, configs):
        wanted += _keys_of(config, here.environment)
    return sorted(set(wanted))


def _keys_of(config: TargetConfig, environment: Mapping[str, str]) -> Iterator[str]:
    to = destination(config, {**environment})
    if to is not None and to.key:
        yield from re.findall(r"[A-Za-z_][A-Za-z0-9_]*", to.key)
    yield from config.header_variables
    for value in (config.api_key, config.address):
        if value and value.startswith("env:"):
            yield value.removeprefix("env:")


def _installed_from() -> str | None:
    """What pip has to install to get this version elsewhere; None if only this machine has it."""
    try:
        described = distribution("tui-evals").read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    if described is None:
        return f"tui-evals=={__version__}"
    direct = json.loads(described)
    if "vcs_info" in direct:
        vcs = direct["vcs_info"]
        return f"{vcs['vcs']}+{direct['url']}@{vcs.get('commit_id') or vcs.get('requested_revision', '')}".rstrip("@")
    url = str(direct["url"])
    return url if url.startswith("https://") else None


def _asked_install() -> str:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Stop(
            "tui-evals was installed from a folder of this machine, which a runner does not have. Say what the runner "
            "installs: --install git+https://github.com/OWNER/REPOSITORY"
        )
    return asked("What does the runner install with pip?", "git+https://", None, "install")


def workflow(install: str, run: str, keys: Sequence[str], watched: Sequence[str], baseline: str) -> str:
    """The text of the workflow; every `run` of it is a command that works in any shell."""
    for part in (install, run, *keys):
        if "${{" in part or "\n" in part:
            raise Stop(f"{part!r} cannot be written into a workflow: it has an expression or a line break in it")
    secrets = "".join(f"\n          {key}: ${{{{ secrets.{key} }}}}" for key in keys)
    environment = f"\n        env:{secrets}" if keys else ""
    report = f"tui-evals ci report --baseline {shlex.quote(baseline)}" if baseline else "tui-evals ci report"
    hashed = ", ".join(f"'{name}'" for name in dict.fromkeys(watched) if "'" not in name)
    return f"""\
{_MARK}
name: evals
on:
  pull_request:
  push:
    branches: [main]
  workflow_dispatch:
permissions:
  contents: read
  pull-requests: write
jobs:
  evals:
    runs-on: ubuntu-latest
    timeout-minutes: 60
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - uses: actions/cache@v4
        with:
          path: .evals/evals.db
          key: evals-${{{{ hashFiles({hashed}) }}}}-${{{{ github.run_id }}}}
          restore-keys: |
            evals-${{{{ hashFiles({hashed}) }}}}-
            evals-
      - name: Install
        run: python -m pip install --quiet {shlex.quote(install)}
      - name: Validate
        run: tui-evals validate
      - name: Run
        run: {run}{environment}
      - name: Report
        if: always()
        run: {report}
        env:
          GITHUB_TOKEN: ${{{{ github.token }}}}
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: evals
          path: results/
          if-no-files-found: ignore
"""


def report(word: str, baseline: str | None) -> None:
    """Write the summary of the job, annotations, and the one comment of the pull request."""
    with project.reader() as reader:
        runs = runs_meant(reader, [word] if baseline is None else [baseline, word])
    run, runs = runs[-1], [*{run.id: run for run in runs}.values()]
    with project.reader() as reader:
        own = "".join(map(_text, write("md", reader, [run])))
        compared = "".join(map(_text, write("md", reader, runs))) if len(runs) > 1 else ""
        _summarise(f"{own}\n{compared}" if compared else own)
        annotate(reader, runs)
        _comment(_mark(run), compared or own)


def _text(piece: str | bytes) -> str:
    return piece if isinstance(piece, str) else piece.decode()


def _summarise(text: str) -> None:
    """Add the text to the summary of the job, up to GitHub's limit; print it outside of a job."""
    file = os.environ.get("GITHUB_STEP_SUMMARY")
    if not file:
        say(text)
        return
    with open(file, "ab") as stream:
        stream.write(text.encode()[: _SUMMARY_LIMIT - stream.tell() - 1].decode("utf-8", "ignore").encode() + b"\n")


def _mark(run: RunRow) -> str:
    name = re.sub(r"[^\w./ -]", "", run.name)
    return f"<!-- tui-evals {name} -->"


def _comment(mark: str, text: str) -> None:
    """Create or update the comment on the pull request; does nothing outside of one."""
    number, repository = _pull_request(), os.environ.get("GITHUB_REPOSITORY", "")
    token = os.environ.get("GITHUB_TOKEN", "")
    if number is None or not repository or not token:
        return
    body = {"body": f"{mark}\n{text}"[:_COMMENT_LIMIT]}
    issues = f"/repos/{repository}/issues"
    try:
        known = _own_comment(f"{issues}/{number}/comments", mark, token)
        if known is None:
            _call("POST", f"{issues}/{number}/comments", token, body)
        else:
            _call("PATCH", f"{issues}/comments/{known}", token, body)
    except urllib.error.HTTPError as problem:
        why = "A pull request of a fork has a token that only reads." if problem.code in (401, 403, 404) else ""
        warn(f"note: The comment was not written: GitHub answered {problem.code}. {why} The summary of the job has it.")
    except OSError as problem:
        warn(f"note: The comment was not written: {problem}. The summary of the job has it.")
    else:
        say(f"{'updated' if known is not None else 'wrote'} the comment of pull request {number}")


def _pull_request() -> int | None:
    """The number of the pull request that the job runs for."""
    file = os.environ.get("GITHUB_EVENT_PATH")
    if not file or not os.path.isfile(file):
        return None
    event = json.loads(read_text(Path(file), follow_out=True))
    number = (event.get("pull_request") or {}).get("number")
    return number if isinstance(number, int) else None


def _own_comment(path: str, mark: str, token: str) -> int | None:
    for page in range(1, _PAGES + 1):
        comments = _call("GET", f"{path}?per_page=100&page={page}", token)
        for comment in comments:
            if str(comment.get("body") or "").startswith(mark):
                return int(comment["id"])
        if len(comments) < 100:
            break
    return None


def _call(method: str, path: str, token: str, body: Mapping[str, Any] | None = None) -> Any:
    address = os.environ.get("GITHUB_API_URL", "https://api.github.com").rstrip("/") + path
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
    request = urllib.request.Request(address, data, {**headers, "Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.loads(reply.read() or b"null")
