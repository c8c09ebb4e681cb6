"""compare, diff, trend, baseline, battle, agreement, report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tui_evals.cli.options import environment, paged, result_as_json, trusting
from tui_evals.compare.runs import KINDS

_file = click.Path(path_type=Path)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")


class ReportKindName(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2
    """The name of a kind of report; installed packages add to them, which are looked for when a name is given."""

    name = "kind"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name of a report; fails with the known names, or with the error of the package."""
        from tui_evals.plugins import UnusablePlugin
        from tui_evals.reports.results import names, report_kind

        kind = click.Choice(names()).convert(value, param, ctx)
        try:
            report_kind(kind)
        except UnusablePlugin as problem:
            self.fail(str(problem), param, ctx)
        return kind

    def get_metavar(self, *args: Any, **more: Any) -> str | None:
        """The names, as the help shows them."""
        from tui_evals.reports.results import names

        return click.Choice(names()).get_metavar(*args, **more)


@click.command("compare")
@click.argument("runs", nargs=-1)
@click.option("--columns", "between", metavar="A,B", help="Compare two columns, prompts or targets of one run's grid.")
@click.option("--only", multiple=True, type=click.Choice(KINDS), help="Only answers of this kind; may be repeated.")
@click.option(
    "--limit",
    default=50,
    type=click.IntRange(min=0),
    show_default=True,
    help="List at most this many answers; --json has all.",
)
@_as_json
@paged
def compare_command(runs: tuple[str, ...], **options: Any) -> None:
    """Compare 2 to 4 RUNS: what broke, what was fixed, and whether the difference is real.

    Every run is compared with the first. A single run is compared with its baseline, or else with its parent or the
    run before of the same dataset; with --columns two of its own targets or prompts are compared. A RUN can also be a
    file of recorded results, ours or those of another tool (`tui-evals help formats`), which is imported first.
    """
    from .compare import compare

    compare(runs, **options)


@click.command("diff")
@click.argument("run", default="last")
@click.option("--item", help="One item: its testId, or #position.")
@click.option("--turn", type=click.IntRange(min=1), help="One turn of it.")
@click.option("--only", metavar="FILTER", help="Only answers that match a filter. Default: failed ones.")
@click.option(
    "--limit", default=20, type=click.IntRange(min=1), show_default=True, help="List at most this many answers."
)
@click.option("--unified", is_flag=True, help="One column, however wide the terminal is.")
@_as_json
def diff_command(run: str, **options: Any) -> None:
    """Show what differs between the expected responses of RUN and its answers.

    RUN can also be a file of recorded results, ours or those of another tool, which is imported first.
    """
    from tui_evals.cli.compare.compare import diff

    diff(run, **options)


@click.command("trend")
@click.argument("dataset", required=False)
@click.option("--item", help="One item: its testId.")
@click.option("--category", help="Only the items of a category.")
@click.option("--evaluator", help="The mean score of one evaluator instead of the pass rate.")
@click.option(
    "--limit", default=20, type=click.IntRange(min=2), show_default=True, help="Only this many runs, the latest."
)
@_as_json
def trend_command(dataset: str | None, **options: Any) -> None:
    """Show how the runs of a dataset went one after the other, by target; DATASET is a file, or a run's name."""
    from tui_evals.cli.compare.trend import trend

    trend(dataset, **options)


@click.group("baseline")
def baseline_command() -> None:
    """Manage the run that later runs of a dataset are compared with; it never changes by itself."""


@baseline_command.command("set")
@click.argument("run", default="last")
@result_as_json
def baseline_set_command(run: str) -> None:
    """Make RUN the baseline of its dataset."""
    from tui_evals.cli.compare.trend import set_run

    set_run(run)


@baseline_command.command("export")
@click.argument("run", default="last")
@click.option("-o", "--output", type=_file, help="The file to write; - or nothing for the screen.")
@click.option("--texts", is_flag=True, help="With answers and reasons too, which may be private.")
def baseline_export_command(run: str, output: Path | None, texts: bool) -> None:
    """Write RUN as a small sorted file to commit: verdicts and figures, without texts, with a digest.

    `run --baseline FILE` measures against it, on any machine. Texts come from the dataset of the checkout.
    """
    from tui_evals.cli.compare.trend import export_baseline

    export_baseline(run, output, texts)


@baseline_command.command("show")
@_as_json
def baseline_show_command(as_json: bool) -> None:
    """Show the baseline of every dataset."""
    from tui_evals.cli.compare.trend import show

    show(as_json)


@baseline_command.command("clear")
@click.argument("name", required=False)
@result_as_json
def baseline_clear_command(name: str | None) -> None:
    """Forget the baseline of NAME, a dataset or a run; not needed where there is only one."""
    from tui_evals.cli.compare.trend import clear

    clear(name)


@click.group("ci")
def ci_command() -> None:
    """Gates in a pipeline: write the workflow, and report the result of a run."""


@ci_command.command("init")
@click.argument("name", required=False)
@click.option("--github", is_flag=True, help="For GitHub Actions, the only kind so far.")
@click.option("-t", "--target", "-m", "--model", "targets", multiple=True, help="The target there.")
@click.option("--install", metavar="SPEC", help="What pip installs on the runner. Default: this version.")
@click.option(
    "--baseline",
    type=_file,
    default=Path("evals", "baseline.json"),
    show_default=True,
    help="The committed baseline; written from the last finished run where it is missing.",
)
@click.option("--max-cost", type=click.FloatRange(min=0, min_open=True), help="US dollars that a run may spend.")
@click.option("--force", is_flag=True, help="Replace a workflow that was written by hand.")
def ci_init_command(name: str | None, github: bool, **given: Any) -> None:
    """Write .github/workflows/evals.yml, which runs NAME (an experiment or a dataset) in each pull request.

    Without NAME the one experiment or dataset of the project. Running it again overwrites the file.
    """
    from tui_evals.cli.compare.ci import init_github

    init_github(name, **given)


@ci_command.command("report")
@click.argument("run", default="last")
@click.option("--baseline", metavar="RUN", help="Show what broke since this run, or the run in this file.")
def ci_report_command(run: str, baseline: str | None) -> None:
    """Write RUN to the summary of the job, as annotations, and as one comment of the pull request.

    An existing comment is updated. Forks only get a read-only token: for them only the summary is written.
    """
    from tui_evals.cli.compare.ci import report

    report(run, baseline)


@click.command("battle")
@click.argument("runs", nargs=-1)
@click.option(
    "--columns", "between", metavar="A,B", help="Between two columns of one run, as `show RUN --grid` names them."
)
@click.option("-j", "--judge", help="The target that judges.")
@click.option("--criteria", help="What the better answer is better at, in a sentence.")
@click.option("--limit", type=click.IntRange(min=1), help="Use at most this many pairs of answers between two runs.")
@click.option("--seed", type=int, help="Sample the pairs of --limit with this seed, instead of the first ones.")
@click.option("-c", "--concurrency", type=click.IntRange(min=1), help="Parallel calls.")
@click.option("--max-cost", type=click.FloatRange(min=0, min_open=True), help="Stop before more US dollars are spent.")
@click.option("--plan", "plan_only", is_flag=True, help="Show the number of calls and the estimated cost, and stop.")
@click.option("--stored", metavar="KEY", hidden=True, help="Execute the battle that the workbench has planned.")
@environment
@trusting
@_as_json
def battle_command(runs: tuple[str, ...], **options: Any) -> int:
    """Let a judge choose between the answers of 2 to 4 RUNS, or of two columns of one, each pair in both orders.

    Verdicts are stored: an interrupted battle continues, and no question is asked twice.
    """
    from .battle import battle

    return battle(runs, **options)


@click.command("battles")
@click.argument("number", type=click.IntRange(min=1), required=False)
@_as_json
def battles_command(number: int | None, as_json: bool) -> None:
    """List earlier battles, the latest first, or show the result of battle NUMBER again; asks no judge."""
    from .battle import past_battles

    past_battles(number, as_json)


@click.command("agreement")
@click.argument("run", default="last")
@click.option("--evaluator", help="Only this evaluator.")
@click.option("--limit", default=10, type=click.IntRange(min=0), show_default=True, help="Disagreements to list.")
@_as_json
def agreement_command(run: str, **options: Any) -> None:
    """Show how far the evaluators of RUN agree with the labels that people gave, and where they do not."""
    from tui_evals.cli.look.labels import agreement

    agreement(run, **options)


@click.command("report")
@click.argument("runs", default="last", metavar="RUN|A,B")
@click.option("--to", "kind", type=ReportKindName(), help="The format. Default: by the extension of -o, else html.")
@click.option("-o", "--output", type=_file, help="The file to write. Default: in .evals/results/; - for the screen.")
@click.option("--only", metavar="FILTER", help="In csv or jsonl: only answers that match a filter, such as `error`.")
@click.option("--raw-csv", is_flag=True, help="Do not escape cells that a spreadsheet would run as formulas.")
@click.option("--bare", is_flag=True, help="Write no FILE.tui-evals, which has what the format cannot hold.")
@click.option(
    "--annotations", is_flag=True, help="Print what failed as annotations that GitHub shows in a pull request."
)
@click.option(
    "--overview",
    is_flag=True,
    help="How far each model keeps to the rules that its tests were made from: printed, or csv or json.",
)
def report_command(runs: str, **options: Any) -> None:
    """Write a page to share: of a run, or of up to four runs compared."""
    from .report import report

    report(runs, **options)
