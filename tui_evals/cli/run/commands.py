"""run, resume, rerun, rescore, watch, pause, stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tui_evals.cli.options import environment, trusting

_file = click.Path(path_type=Path)
_quiet = click.option("--quiet", is_flag=True, help="Print nothing but errors.")
_as_json = click.option("--json", "as_json", is_flag=True, help="Print one event of JSON a line.")
_evaluators = click.option(
    "-e", "--evaluators", help="Evaluators instead of the dataset's defaults: names by commas, or a JSON object."
)
_detach = click.option("--detach", is_flag=True, help="Run in the background; prints the id of the run.")
_unjudged = click.option(
    "--allow-unjudged", is_flag=True, help="Go on though an evaluator lacks here what it needs to judge."
)
_plan = click.option("--plan", "plan_only", is_flag=True, help="Say how many calls and about how much money, and stop.")
_OUTPUT = "Write results; the ending says as what: .html .md .xml .csv .json .jsonl; may be repeated."
_SWEEP = "Ask every target with each value of a parameter, as in temperature=0,0.7; may be repeated."
_CLUSTER = "Share the work out: local:4, tcp://… or tls://host:8786, ssh:hosts.txt; none is this process."
_FAIL_ON = ["fail", "partial", "error"]


_LEVEL = "0.05"
"""The level of a gate that names none: the one from which comparisons say that a difference could be chance."""


class Gated(click.Command):
    """A command whose --fail-on-regression may stand without a level, and never takes the next word for one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give the option its level where there is none."""
        options = args.index("--") if "--" in args else len(args)
        bare = "--fail-on-regression"
        with_level = [f"{bare}={_LEVEL}" if word == bare else word for word in args[:options]]
        return super().parse_args(ctx, with_level + args[options:])


class Variadic(Gated):
    """A command whose --prompts and --expected take every word up to the next option."""

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
        return super().parse_args(ctx, spread)


def _gates(command: Any) -> Any:
    for option in (
        click.option("--fail-under", type=click.FloatRange(0, 100), help="Exit 1 when a column scores less."),
        click.option("--fail-on", type=click.Choice(_FAIL_ON), help="Exit 1 when an answer is that bad or worse."),
        click.option(
            "--fail-on-regression",
            metavar="[=P]",
            type=click.FloatRange(0, 1, min_open=True, max_open=True),
            help=f"Exit 1 when it is worse than the baseline, beyond what chance does in P ({_LEVEL}) of cases.",
        ),
        click.option(
            "--max-missing",
            metavar="PERCENT",
            type=click.FloatRange(0, 100),
            help="How much may be unanswered, unjudged or not comparable before no gate is met (5).",
        ),
        click.option("--baseline", metavar="RUN", help="Compare with RUN instead of the baseline that was set."),
        click.option("-o", "--output", "outputs", multiple=True, type=_file, help=_OUTPUT),
    ):
        command = option(command)
    return command


def _cluster(command: Any) -> Any:
    for option in (
        click.option("--cluster", metavar="WHERE", help=_CLUSTER),
        click.option("--insecure-cluster", is_flag=True, help="Accept a cluster whose traffic anybody can read."),
        click.option("--tls-ca", metavar="FILE", help="With --cluster: the authority of its certificates."),
        click.option("--tls-cert", metavar="FILE", help="With --cluster: this side's certificate."),
        click.option("--tls-key", metavar="FILE", help="With --cluster: the key of that certificate."),
        click.option("--forward-env", metavar="NAME", multiple=True, help="Hand a variable to the workers; TLS only."),
    ):
        command = option(command)
    return command


@click.command("run", cls=Variadic)
@click.argument("dataset", required=False, type=_file)
@click.option("-t", "--target", "targets", multiple=True, help="What answers; may be repeated, or several by commas.")
@click.option("-p", "--prompt", "prompts", multiple=True, type=_file, help="A .prompty under test; may be repeated.")
@click.option("-P", "--param", "sweep", multiple=True, metavar="NAME=A,B", help=_SWEEP)
@click.option("-j", "--judge", help="The target that judges.")
@click.option("--without-judges", is_flag=True, help="Record evaluators that need a judge as skipped.")
@_evaluators
@click.option("-n", "--repeats", type=click.IntRange(min=1), help="How often each item is asked.")
@click.option("-c", "--concurrency", type=click.IntRange(min=1), help="Calls in flight at once, per target.")
@click.option("--only", metavar="FILTER", help="Only these items: id:, category:, tag:, words; with --from any filter.")
@click.option("--from", "from_run", metavar="RUN", help="The run whose answers --only looks at.")
@click.option("--items", metavar="LIST", help="Only the items at these positions, from 1, as in 1,4-9.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many items.")
@click.option("--seed", type=int, help="Sample the items of --limit with this seed, instead of the first ones.")
@click.option("--name", help="A name for the run.")
@click.option("--tag", "tags", multiple=True, help="A tag for the run; may be repeated.")
@click.option("--parent", metavar="RUN", help="The earlier run that this one goes back to.")
@click.option("--max-cost", type=click.FloatRange(min=0, min_open=True), help="Stop before more US dollars are spent.")
@_unjudged
@_plan
@_detach
@click.option("--no-cache", is_flag=True, help="Ask even where the answer is known.")
@click.option("--prompts", "inline", multiple=True, metavar="TEXT…", help="Prompts instead of a dataset.")
@click.option("--expected", multiple=True, metavar="TEXT…", help="The expected responses of --prompts.")
@click.option("--prompts-file", type=_file, help="The same as DATASET.")
@click.option("--interactive", is_flag=True, help="Ask for prompts, one at a time.")
@click.option("--snapshot", metavar="HASH", help="Run a dataset the store holds.")
@click.option("--as", "stands_for", metavar="FILE", type=_file, help="The file that --snapshot stands for.")
@click.option("--registry", metavar="PATH[,PATH]", help="Take DATASET as an eval, a pattern or a set of a registry.")
@click.option("--max-samples", type=click.IntRange(min=1), help="With --registry: so many, in the original's order.")
@click.option("--faithful", is_flag=True, help="With --registry: ask and judge to the letter of the original.")
@click.option("--data", metavar="FILE", type=_file, help="With --registry: the samples of the eval, as JSONL.")
@_cluster
@_gates
@environment
@trusting
@_quiet
@_as_json
def run_command(**options: Any) -> int:
    """Ask every item of DATASET of every target, judge the answers, and keep all of it.

    Without DATASET the usual places are searched. Prompts x targets x values of -P x repeats is
    one run with comparable columns.
    With --registry DATASET names evals of OpenAI Evals (`tui-evals help registries`), each of which is a run.
    The first Ctrl-C finishes what is in flight, the second stops; either way `tui-evals resume` goes on where it was.
    """
    from .start import start

    return start(**options)


@click.command("resume", cls=Gated)
@click.argument("run")
@click.option("--errors", is_flag=True, help="Ask, or judge, what ended as an error again, in this run.")
@click.option("--max-cost", type=click.FloatRange(min=0, min_open=True), help="A new limit in US dollars.")
@_detach
@_cluster
@_gates
@environment
@trusting
@_quiet
@_as_json
def resume_command(run: str, **options: Any) -> int:
    """Go on with RUN where it stopped; nothing answered is asked again.

    With --errors also what ended as an error is asked again, in place: what it was stays in the record, and its cost
    in the sum. Answers that an evaluator could not judge are judged by it again.
    """
    from .start import resume

    return resume(run, **options)


@click.command("rerun", cls=Gated)
@click.argument("run")
@click.option(
    "--only",
    metavar="FILTER",
    required=True,
    help="Whose answers are fail, error, flaky, or any filter (`tui-evals help filters`).",
)
@_unjudged
@_plan
@_detach
@_cluster
@_gates
@environment
@trusting
@_quiet
@_as_json
def rerun_command(run: str, only: str, **options: Any) -> int:
    """Ask the items of RUN that a filter finds again, in a new run that names it as its parent."""
    from .start import rerun

    return rerun(run, only, **options)


@click.command("rescore", cls=Gated)
@click.argument("run")
@click.option("--item", metavar="ID", help="Only the answers to this item, in place: its testId or #position.")
@click.option(
    "--only", metavar="FILTER", help="Only these answers, by what judges the run; the others keep their scores."
)
@click.option("--items", metavar="1,4-9", help="The same of the answers to the items at these positions.")
@click.option("--dataset", "dataset", type=_file, help="Take the evaluators from this dataset instead.")
@_evaluators
@click.option("-j", "--judge", help="The target that judges.")
@click.option("--without-judges", is_flag=True, help="Record evaluators that need a judge as skipped.")
@click.option("--no-cache", is_flag=True, help="Ask judges even where their verdict is known.")
@_unjudged
@_plan
@_detach
@_cluster
@_gates
@environment
@trusting
@_quiet
@_as_json
def rescore_command(run: str, item: str | None, **options: Any) -> int:
    """Judge the answers of RUN again without asking any target; earlier scores are kept.

    With --item only the answers to one item are, by its run's evaluators or by --dataset as it is now; the run says
    how many of its answers are judged by an edited dataset.
    """
    if item is not None:
        from .rescore_item import rescore_item

        return rescore_item(run, item, options.pop("dataset"), options)
    from .start import rescore

    return rescore(run, **options)


@click.command("watch")
@click.argument("run", default="last")
@click.option("--tui", is_flag=True, help="Open the workbench on it.")
@click.option("--no-mouse", is_flag=True, help="With --tui, leave the mouse to the terminal.")
@_as_json
@click.pass_context
def watch_command(ctx: click.Context, run: str, tui: bool, no_mouse: bool, as_json: bool) -> object:
    """Follow RUN, whichever process executes it."""
    from .watching import opening_on, watch

    return opening_on(run, as_json, ctx.obj.mouse and not no_mouse) if tui else watch(run, as_json)


@click.command("pause")
@click.argument("run", default="last")
def pause_command(run: str) -> None:
    """Let RUN start nothing new until it is resumed."""
    from tui_evals.cli.look.managing import say_control

    say_control(run, "pause")


@click.command("stop")
@click.argument("run", default="last")
def stop_command(run: str) -> None:
    """End RUN once what is in flight has its answer; it can be resumed."""
    from tui_evals.cli.look.managing import say_control

    say_control(run, "stop")
