"""Options of run, resume, rerun, rescore, watch, pause, stop and suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import click

from tui_evals.cli.options import GroupedHelp, as_json, environment, file_path, help_all, result_as_json, trusting
from tui_evals.runs.gate_options import OPTIONS, GateOption, gates_of

_quiet = click.option("--quiet", is_flag=True, help="Print only errors.")
_verbose = click.option("-v", "--verbose", is_flag=True, help="Print a line for each answer once it is judged.")
_as_events = click.option("--json", "as_json", is_flag=True, help="Print one JSON event per line.")
_evaluators = click.option(
    "-e", "--evaluators", help="Evaluators instead of the dataset's defaults: names by commas, or a JSON object."
)
_on_finish = click.option(
    "--on-finish",
    metavar="COMMAND",
    help="Run this in a shell when the run is over, with TUI_EVALS_RUN, TUI_EVALS_STATUS and TUI_EVALS_EXIT set.",
)
_detach = click.option("--detach", is_flag=True, help="Run in the background; prints the id of the run.")
_unjudged = click.option(
    "--allow-unjudged", is_flag=True, help="Run even if an evaluator lacks something it needs to judge."
)
_plan = click.option(
    "--plan", "--dry-run", "plan_only", is_flag=True, help="Show the number of calls and the estimated cost, and stop."
)
_OUTPUT = "Write results to a file: .html, .md, .xml, .csv, .json or .jsonl. Can be repeated."
_SWEEP = "Ask every target with each value of a parameter, as in temperature=0,0.7."
_CLUSTER = "Share the work out: local:4, tcp://… or tls://host:8786, ssh:hosts.txt; none is this process."


WORDS = "tui_evals.run.words"
"""The key in a context for the words typed after `run`."""


class Gated(click.Command):
    """A command with gates; optional values of gates are only taken after `=`, never from the next word."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give such an option its usual value where it has none."""
        options = args.index("--") if "--" in args else len(args)
        usual = {option.flag: f"{option.flag}={option.alone}" for option in OPTIONS if option.alone}
        return super().parse_args(ctx, [usual.get(word, word) for word in args[:options]] + args[options:])


class _GateValue(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """The value of a gate, as its declaration reads it."""

    def __init__(self, option: GateOption) -> None:
        self.name = option.name
        self._option = option

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value; ends the command with valid ones."""
        try:
            return self._option.read(value)
        except ValueError as problem:
            self.fail(str(problem), param, ctx)


class Variadic(GroupedHelp, Gated):
    """A command whose --prompts and --expected take every word up to the next option."""

    groups: ClassVar[Mapping[str, Sequence[str]]] = {
        "What is asked": ("targets", "prompts", "sweep", "only", "items", "limit", "repeats"),
        "How": (
            "judge",
            "evaluators",
            "concurrency",
            "max_cost",
            "no_cache",
            "trusting",
            "plan_only",
            "detach",
            "watch",
            "name",
        ),
        "Gates": tuple(option.name for option in OPTIONS if option.name not in ("max_missing", "fail_on_incomplete")),
        "Output": ("outputs", "summary", "quiet", "as_json"),
    }

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the option before each of its words, which is how click wants it."""
        spread: list[str] = []
        option = ""
        for word in args:
            if word.startswith("-") and word != "-":
                option = word if word in ("--prompts", "--expected") else ""
                if not option:
                    spread.append(word)
            elif option:
                spread += [option, word]
            else:
                spread.append(word)
        ctx.meta[WORDS] = [word for word in args if word != "--watch"]
        return super().parse_args(ctx, spread)


def gated(command: Any) -> Any:
    """Add the options of gates to a command."""
    for option in OPTIONS:
        command = click.option(option.flag, metavar=option.metavar, type=_GateValue(option), help=option.help)(command)
    return command


def _gates(command: Any) -> Any:
    return click.option("-o", "--output", "outputs", multiple=True, type=file_path, help=_OUTPUT)(gated(command))


def _cluster(command: Any) -> Any:
    for option in (
        click.option("--cluster", metavar="WHERE", help=_CLUSTER),
        click.option("--insecure-cluster", is_flag=True, help="Accept a cluster whose traffic is not encrypted."),
        click.option("--tls-ca", metavar="FILE", help="With --cluster: the authority of its certificates."),
        click.option("--tls-cert", metavar="FILE", help="With --cluster: this side's certificate."),
        click.option("--tls-key", metavar="FILE", help="With --cluster: the key of that certificate."),
        click.option("--forward-env", metavar="NAME", multiple=True, help="Pass a variable to the workers; TLS only."),
    ):
        command = option(command)
    return command


@click.command("run", cls=Variadic)
@help_all
@click.argument("dataset", required=False, type=file_path)
@click.option(
    "-t",
    "--target",
    "-m",
    "--model",
    "targets",
    multiple=True,
    help="The target that answers. Can be repeated; commas separate several.",
)
@click.option(
    "-p", "--prompt", "prompts", multiple=True, type=file_path, help="A .prompty under test. Can be repeated."
)
@click.option("-P", "--param", "sweep", multiple=True, metavar="NAME=A,B", help=_SWEEP)
@click.option("--door", metavar="TARGET", help="Answers what agents ask their models, and records it.")
@click.option("-j", "--judge", help="The target that judges.")
@click.option("--without-judges", is_flag=True, help="Record evaluators that need a judge as skipped.")
@_evaluators
@click.option("-n", "--repeats", type=click.IntRange(min=1), help="How often each item is asked.")
@click.option("-c", "--concurrency", type=click.IntRange(min=1), help="Parallel calls per target.")
@click.option(
    "--only",
    "--filter",
    metavar="FILTER",
    help="Only these items: id:, category:, tag:, words; with --from any filter.",
)
@click.option("--from", "from_run", metavar="RUN", help="The run whose answers --only looks at.")
@click.option("--items", metavar="LIST", help="Only the items at these positions, from 1, as in 1,4-9.")
@click.option("--limit", type=click.IntRange(min=1), help="Ask at most this many items.")
@click.option("--seed", type=int, help="Sample the items of --limit with this seed, instead of the first ones.")
@click.option("--name", help="A name for the run.")
@click.option("--tag", "tags", multiple=True, help="A tag for the run; may be repeated.")
@click.option("--parent", metavar="RUN", help="The earlier run that this one goes back to.")
@click.option("--max-cost", type=click.FloatRange(min=0, min_open=True), help="Stop before more US dollars are spent.")
@_unjudged
@_plan
@_detach
@click.option(
    "--watch", is_flag=True, help="Run again when a file of the project changes; --max-cost is for all of it."
)
@_on_finish
@click.option("--no-cache", is_flag=True, help="Ask again, even if it is in the cache.")
@click.option(
    "--summary/--no-summary", default=None, help="Print at the end what changed and what fails. Default: on a terminal."
)
@click.option("--prompts", "inline", multiple=True, metavar="TEXT…", help="Prompts instead of a dataset.")
@click.option("--expected", multiple=True, metavar="TEXT…", help="The expected responses of --prompts.")
@click.option("--prompts-file", type=file_path, help="The same as DATASET.")
@click.option("--interactive", is_flag=True, help="Ask for prompts, one at a time.")
@click.option("--snapshot", metavar="HASH", help="Run a dataset the store holds.")
@click.option("--as", "stands_for", metavar="FILE", type=file_path, help="The file that --snapshot replaces.")
@click.option("--registry", metavar="PATH[,PATH]", help="Read DATASET as an eval, a pattern or a set of a registry.")
@click.option(
    "--max-samples", type=click.IntRange(min=1), help="With --registry: this many samples, in the original's order."
)
@click.option("--faithful", is_flag=True, help="With --registry: ask and judge exactly as the original does.")
@click.option("--data", metavar="FILE", type=file_path, help="With --registry: the samples of the eval, as JSONL.")
@_cluster
@_gates
@environment
@trusting
@_quiet
@_verbose
@_as_events
@click.pass_context
def run_command(context: click.Context, /, watch: bool, **options: Any) -> int:
    """Send every item of DATASET to every target, and judge the answers.

    DATASET is a file, or an experiment by its name (`tui-evals help experiments`). Without it, the only experiment of
    the project runs, or else its dataset. A run has a column for each combination of prompt, target and value of -P.
    The first Ctrl-C waits for open requests, the second stops at once. `tui-evals resume` continues.
    """
    if watch:
        from tui_evals.cli.run.watching import run_on_change

        return run_on_change(context.meta[WORDS], options)
    from tui_evals.cli.run.start import start

    return start(**options)


@click.command("resume", cls=Gated)
@click.argument("run")
@click.option("--errors", is_flag=True, help="Ask, or judge, what ended as an error again, in this run.")
@click.option(
    "--target", "-t", "only", multiple=True, metavar="NAME[,NAME]", help="Ask only these targets; others stay pending."
)
@click.option(
    "--without", multiple=True, metavar="NAME[,NAME]", help="Do not ask these targets or judges; they stay pending."
)
@click.option("--max-cost", type=click.FloatRange(min=0, min_open=True), help="A new limit in US dollars.")
@_detach
@_on_finish
@_cluster
@_gates
@environment
@trusting
@_quiet
@_as_events
def resume_command(run: str, **options: Any) -> int:
    """Continue RUN where it stopped; nothing answered is asked again.

    A target or judge that has not answered yet is asked with its current configuration; `tui-evals help runs` has a
    table of what may change.
    With --errors, errors are retried in place: the record keeps the first attempt, and the sum its cost. Answers that
    an evaluator could not judge are judged by it again.
    """
    from tui_evals.cli.run.start import resume

    return resume(run, **options)


@click.command("rerun", cls=Gated)
@click.argument("run")
@click.option(
    "--only",
    metavar="FILTER",
    required=True,
    help="Ask items whose answers match: fail, error, flaky, or any filter (`tui-evals help filters`).",
)
@_unjudged
@_plan
@_detach
@_on_finish
@_cluster
@_gates
@environment
@trusting
@_quiet
@_verbose
@_as_events
def rerun_command(run: str, only: str, **options: Any) -> int:
    """Ask the items of RUN that a filter finds again, in a new run that names it as its parent."""
    from tui_evals.cli.run.start import rerun

    return rerun(run, only, **options)


@click.command("rescore", cls=Gated)
@click.argument("run")
@click.option("--item", metavar="ID", help="Only the answers to this item, in place: its testId or #position.")
@click.option(
    "--only", metavar="FILTER", help="Only these answers, by what judges the run; the others keep their scores."
)
@click.option("--items", metavar="1,4-9", help="Only the answers to the items at these positions, in place.")
@click.option("--dataset", "dataset", type=file_path, help="Take the evaluators from this dataset instead.")
@_evaluators
@click.option(
    "--evaluator", "named", metavar="NAME", multiple=True, help="Only this evaluator judges; may be repeated."
)
@click.option("-j", "--judge", help="The target that judges.")
@click.option("--without-judges", is_flag=True, help="Record evaluators that need a judge as skipped.")
@click.option("--no-cache", is_flag=True, help="Ask judges again, even where nothing has changed.")
@click.option(
    "--threshold", "thresholds", metavar="NAME=SCORE", multiple=True, help="An evaluator passes at this score or more."
)
@click.option("--weight", "weights", metavar="NAME=WEIGHT", multiple=True, help="The weight of an evaluator.")
@click.option(
    "--scale",
    "scales",
    metavar="NAME:LABEL=VALUE",
    multiple=True,
    help="What a label of a scale is worth.",
)
@click.option("--pass-rule", type=click.FloatRange(0, 1), help="The share of its weights that an answer needs to pass.")
@click.option("--what-if", "only_try", is_flag=True, help="Only show which verdicts change, from stored scores.")
@_unjudged
@_plan
@_detach
@_on_finish
@_cluster
@_gates
@environment
@trusting
@_quiet
@_as_events
def rescore_command(run: str, item: str | None, **options: Any) -> int:
    """Judge the answers of RUN again without asking any target; earlier scores are kept.

    A judge is only asked if something changed: the evaluator, its options, its rubric, the judge or its input. --plan
    shows how many calls that needs. What you select with --only, --items or --evaluator is judged again even if nothing
    changed. With --item only the answers to one item are judged, by its run's evaluators or by the current ones of
    --dataset; the run then shows how many of its answers are judged by an edited dataset.
    """
    if item is not None:
        from tui_evals.cli.run.start import rescore_item

        return rescore_item(run, item, options.pop("dataset"), options)
    from tui_evals.cli.run.start import rescore

    return rescore(run, **options)


@click.command("watch")
@click.argument("run", default="last")
@click.option("--tui", is_flag=True, help="Open the workbench on it.")
@click.option("--no-mouse", is_flag=True, help="With --tui: leave the mouse to the terminal.")
@_as_events
@click.pass_context
def watch_command(ctx: click.Context, run: str, tui: bool, no_mouse: bool, as_json: bool) -> object:
    """Follow RUN, which any process may execute."""
    from tui_evals.cli.run.watching import opening_on, watch

    return opening_on(run, as_json, ctx.obj.mouse and not no_mouse) if tui else watch(run, as_json)


@click.command("pause")
@click.argument("run", default="last")
@result_as_json
def pause_command(run: str) -> None:
    """Pause RUN: no new requests until it is resumed."""
    from tui_evals.cli.look.stored import say_control

    say_control(run, "pause")


@click.command("stop")
@click.argument("run", default="last")
@result_as_json
def stop_command(run: str) -> None:
    """Stop RUN after its open requests are answered; it can be resumed."""
    from tui_evals.cli.look.stored import say_control

    say_control(run, "stop")


@click.group("suite")
def suite_command() -> None:
    """Named suites of cases with one scoring method, and named runs of candidate outputs over them.

    A suite is a table of inputs and reference outputs; a run scores existing answers, one per case. Both are kept in
    the project, and the runs can be opened with `show`, `compare` and the workbench like any others.
    """


@suite_command.command("create")
@click.argument("name")
@click.option("--data", type=file_path, required=True, metavar="FILE.csv", help="The table of cases.")
@click.option(
    "--scoring",
    required=True,
    metavar="METHOD",
    help='An evaluator, such as exact_match, or with options {"exact_match": {"case_sensitive": false}}.',
)
@click.option("--input-column", default="input", show_default=True, help="The column of inputs.")
@click.option("--reference-column", default="reference_output", show_default=True, help="The column of references.")
@click.option("--description", metavar="TEXT", help="What the suite is for.")
@as_json
def create_suite_command(name: str, **options: Any) -> None:
    """Create a suite from the cases in a table; every cell is text, and a blank one is absent."""
    from tui_evals.cli.run.suites import create

    create(name, **options)


@suite_command.command("run", cls=Gated)
@click.argument("name")
@click.argument("run")
@click.option("--candidates", type=file_path, required=True, metavar="FILE.csv", help="The table of outputs to score.")
@click.option("--candidate-column", default="candidate_output", show_default=True, help="The column of outputs.")
@click.option("--context-column", metavar="COLUMN", help="The column of contexts, where the scoring needs them.")
@click.option("--model-name", metavar="TEXT", help="Noted with the run: which model wrote the outputs.")
@click.option("--model-version", metavar="TEXT", help="Noted with the run: which version of it.")
@click.option("--foundation-model", metavar="TEXT", help="Noted with the run: what that model was made from.")
@click.option("--prompt-template", metavar="TEXT", help="Noted with the run: which prompt it was given.")
@click.option("--judge", metavar="TARGET", help="The target that judges, where a model scores the suite.")
@gated
@trusting
@as_json
def run_suite_command(name: str, run: str, **options: Any) -> int:
    """Score the outputs in a table, one for each case and in the same order, as the run RUN of the suite NAME."""
    from tui_evals.cli.run.suites import run as run_suite

    gates = gates_of({option.name: options.pop(option.name) for option in OPTIONS})
    return run_suite(name, run, gates=gates, **options)


@suite_command.command("list")
@as_json
def list_suites_command(as_json: bool) -> None:
    """List the suites."""
    from tui_evals.cli.run.suites import list_suites

    list_suites(as_json)


@suite_command.command("show")
@click.argument("name")
@click.argument("run", required=False)
@as_json
def show_suite_command(name: str, run: str | None, as_json: bool) -> None:
    """Show a suite with its runs, or one run of it: its notes and all cases, worst first."""
    from tui_evals.cli.run.suites import show

    show(name, run, as_json)


@suite_command.command("compare")
@click.argument("name")
@click.argument("runs", nargs=-1)
@as_json
def compare_suite_command(name: str, runs: tuple[str, ...], as_json: bool) -> None:
    """Compare runs of a suite, all where none is named: average scores, and whether chance explains the difference."""
    from tui_evals.cli.run.suites import compare

    compare(name, runs, as_json)
