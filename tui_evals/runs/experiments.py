"""Experiments: files that define the data, targets, evaluators and gates of a run.

An experiment sets options of `tui-evals run`. Typed options override it, and it overrides the configuration of the
project and the dataset. It needs the same permissions as the configuration.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from tui_evals.datasets.discover import dataset_named, from_here
from tui_evals.datasets.document import Document, as_document, load
from tui_evals.datasets.paths import DatasetError, Layout, Problem, line_in, places_in
from tui_evals.datasets.paths import Path as Place
from tui_evals.datasets.prompts import is_prompt
from tui_evals.datasets.validate import problem_of
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_head, read_text, resolved
from tui_evals.runs.gate_options import OPTIONS
from tui_evals.runs.project import Project
from tui_evals.runs.prompting import PromptUnderTest, prompts_from
from tui_evals.runs.status import EXPERIMENT
from tui_evals.store.records import RunRow
from tui_evals.targets.base import ConfigurationError, TargetConfig
from tui_evals.targets.config import RunDefaults, Settings, find_target, line_of_setting, target_config, unfit_target
from tui_evals.targets.config_model import TargetModel, faults_in
from tui_evals.targets.environment import environment
from tui_evals.targets.permissions import Permission
from tui_evals.targets.providers import PROVIDERS
from tui_evals.text import strictjson
from tui_evals.text.chats import Prompty, Section, parse_prompty
from tui_evals.text.names import did_you_mean
from tui_evals.text.yamls import YamlError, load_yaml, write_yaml

ENDINGS = (".yaml", ".yml", ".toml", ".json")
FOLDER = "experiments"
_NAME = re.compile(r"(?:(?P<name>.+)\.)?experiment\.(?:ya?ml|toml|json)")
_FILE = "file://"


def is_experiment(file: Path) -> bool:
    """Whether a file is named as experiments are, or is TOML, which no dataset is."""
    named = _NAME.fullmatch(file.name.lower()) is not None or file.absolute().parent.name == FOLDER
    return file.suffix.lower() == ".toml" or (named and file.suffix.lower() in ENDINGS)


def experiment_name(file: Path) -> str:
    """How an experiment is called: its file without `.experiment` and the ending."""
    match = _NAME.fullmatch(file.name)
    return file.stem if match is None else match["name"] or "experiment"


def experiment_files(root: Path) -> list[Path]:
    """The experiments of a project: `experiment.yaml`, `NAME.experiment.yaml` and `experiments/NAME.yaml`."""
    found = [file for file in sorted(root.glob("*experiment.*")) if _NAME.fullmatch(file.name)]
    more = sorted((root / FOLDER).glob("*")) if (root / FOLDER).is_dir() else []
    listed = (*found, *(one for one in more if one.suffix in ENDINGS))
    return [from_here(file) for file in listed if file.is_file()]


def experiment_named(word: Path, root: Path) -> Path | None:
    """The experiment of a path or a name; None where the word names something else."""
    if word.is_file():
        return word if is_experiment(word) or _says_experiment(word) else None
    if len(word.parts) != 1:
        return None
    return next((file for file in experiment_files(root) if str(word) in (file.name, experiment_name(file))), None)


_SAYS = re.compile(rb"(?m)^(data|tests|targets|providers)\s*:")


def _says_experiment(file: Path) -> bool:
    """Whether a YAML file of any name reads as an experiment rather than as a dataset."""
    if file.suffix.lower() not in (".yaml", ".yml"):
        return False
    start = read_head(file, 65_536, follow_out=True)
    return _SAYS.search(start) is not None and re.search(rb"(?m)^items\s*:", start) is None


def experiment_text(parts: Mapping[str, Any]) -> str:
    """The text of an experiment with the parts that are given, which reads as itself."""
    given = {name: part for name, part in parts.items() if part not in (None, "", [], {}, ())}
    ExperimentModel.model_validate(given)
    return f"# What a run asks, who answers, how it is judged: `tui-evals help experiments`\n{write_yaml(given)}"


def usual_experiment(root: Path) -> Path | None:
    """The experiment that is run where none is named; DatasetError where it could be several."""
    files = experiment_files(root)
    usual = [file for file in files if experiment_name(file) == "experiment"]
    if len(usual or files) > 1:
        names = ", ".join(experiment_name(file) for file in files)
        raise DatasetError(
            str(root), [Problem(f"has {len(files)} experiments. Name one: tui-evals run NAME ({names})")]
        )
    return next(iter(usual or files), None)


def _listed(value: object) -> object:
    """A single value as a list of it."""
    return value if value is None or isinstance(value, list) else [value]


def _data(value: object) -> object:
    if isinstance(value, str):
        return {"file": value}
    return {"items": value} if isinstance(value, list) else value


def _prompt(value: object) -> object:
    """A prompt that is given as text: a file by its ending, else the prompt itself."""
    if not isinstance(value, str):
        return value
    if value.startswith(_FILE):
        return {"file": value.removeprefix(_FILE)}
    is_file = is_prompt(Path(value)) and not re.search(r"\s|\{\{", value)
    return {"file": value} if is_file else {"text": value}


_PROMPTFOO = re.compile(r"(?P<provider>[a-z_]+):(?:(?:chat|messages|responses|completion):)?(?P<model>[^:\s][^\s]*)")


def _word(word: str) -> str:
    """The word of a model in our spelling: `openai:chat:gpt-4o` is `openai/gpt-4o`."""
    match = _PROMPTFOO.fullmatch(word)
    return f"{match['provider']}/{match['model']}" if match is not None and match["provider"] in PROVIDERS else word


def _target(value: object) -> object:
    """A target as the section it is: a word alone is its model, and `id`, `label` and `config` are as in promptfoo."""
    if isinstance(value, str):
        return {"word": _word(value)}
    if not isinstance(value, dict):
        return value
    renamed = {{"id": "model", "label": "name", "config": "params"}.get(key, key): part for key, part in value.items()}
    model = renamed.get("model")
    return {**renamed, "model": _word(model)} if isinstance(model, str) else renamed


def _targets(value: object) -> object:
    """Targets by name, as in the configuration, or a list of them."""
    if isinstance(value, dict) and not value.keys() & {"model", "http", "id"}:
        return [{**part, "name": name} if isinstance(part, dict) else part for name, part in value.items()]
    return _listed(value)


def _evaluators(value: object) -> object:
    """Evaluators by name; each entry of a list is a name, `{Name: {options}}` or `{type: Name, …}`."""
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",")]
    if not isinstance(value, list):
        return {name: options or {} for name, options in value.items()} if isinstance(value, dict) else value
    named: dict[str, Any] = {}
    for entry in value:
        if isinstance(entry, dict) and isinstance(kind := entry.get("type"), str):
            named[kind] = {key: option for key, option in entry.items() if key != "type"}
        elif isinstance(entry, dict):
            named |= {name: options or {} for name, options in entry.items()}
        else:
            named[str(entry)] = {}
    return named


def _dashed(value: object) -> object:
    """Gates by the names of their fields, however they are written: `fail-under` or `fail_under`."""
    return {str(key).replace("-", "_"): part for key, part in value.items()} if isinstance(value, dict) else value


def _budget(value: object) -> object:
    return value.get("max_cost") if isinstance(value, dict) and value.keys() == {"max_cost"} else value


class _ExperimentPart(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, hide_input_in_errors=True, defer_build=True
    )


_TEXT = {"type": "string"}
_OBJECT = {"type": "object"}


def _either(*schemas: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": list(schemas)})


class DataModel(_ExperimentPart):
    """The source of items: a file, or a list; `columns` maps fields of an item to columns."""

    file: str | None = Field(None, min_length=1)
    items: list[dict[str, Any]] | None = None
    columns: dict[str, str] = {}


class PromptModel(_ExperimentPart):
    """A prompt under test: a file, a text, or chat messages."""

    name: str | None = Field(None, min_length=1)
    file: str | None = Field(None, min_length=1)
    text: str | None = Field(None, min_length=1)
    messages: list[dict[str, Any]] | None = Field(None, min_length=1)


_Section = dict[str, Any]
_TargetValue = Annotated[
    _Section, BeforeValidator(_target), _either(_TEXT, {**_OBJECT, "description": "a section as in config.toml"})
]
_GateValues = Annotated[dict[str, Any], BeforeValidator(_dashed)]


def _also(*names: str) -> Any:
    """A field that goes by other names too."""
    return Field(None, validation_alias=AliasChoices(*names))


class ExperimentModel(_ExperimentPart):
    """The whole file."""

    schema_: str | None = Field(None, alias="$schema")
    description: str | None = None
    data: Annotated[
        DataModel | None,
        BeforeValidator(_data),
        _either(_TEXT, {"type": "array", "items": _OBJECT}, _OBJECT),
    ] = _also("data", "tests", "dataset")
    prompts: Annotated[
        list[Annotated[PromptModel, BeforeValidator(_prompt), _either(_TEXT, _OBJECT)]] | None,
        BeforeValidator(_listed),
    ] = _also("prompts", "prompt")
    targets: Annotated[list[_TargetValue] | None, BeforeValidator(_targets)] = _also("targets", "providers", "target")
    sweep: dict[str, Annotated[list[str | int | float | bool], BeforeValidator(_listed)]] | None = _also(
        "sweep", "sweeps"
    )
    judge: _TargetValue | None = None
    judges: Annotated[list[_TargetValue] | None, BeforeValidator(_targets)] = None
    evaluators: Annotated[dict[str, dict[str, Any]] | None, BeforeValidator(_evaluators)] = _also(
        "evaluators", "assert"
    )
    repeats: int | None = Field(None, ge=1, validation_alias=AliasChoices("repeats", "repeat"))
    concurrency: int | None = Field(None, ge=1, validation_alias=AliasChoices("concurrency", "maxConcurrency"))
    budget: Annotated[float | None, BeforeValidator(_budget)] = Field(
        None, gt=0, validation_alias=AliasChoices("budget", "max_cost")
    )
    cache: bool = True
    filter: str | None = _also("filter", "only")
    items: str | None = None
    limit: int | None = Field(None, ge=1)
    seed: int | None = None
    gates: _GateValues = {}
    baseline: str | None = None
    outputs: Annotated[list[str] | None, BeforeValidator(_listed)] = _also("outputs", "output", "outputPath")
    tags: Annotated[list[str], BeforeValidator(_listed)] = []
    without_judges: bool = False
    allow_unjudged: bool = False


_GATES = {option.name: option for option in OPTIONS}
_HIDDEN = re.compile(r"(?:^|/)\.[^/.]")


def is_given(value: object) -> bool:
    """Whether an option says something; 0 does, as in `max-missing: 0`."""
    return value is not None and value is not False and value != ()


@dataclass(frozen=True)
class Experiment:
    """A readable experiment; `model` is its content, and `where` names its file in messages."""

    file: Path
    root: Path
    text: str
    model: ExperimentModel

    @property
    def name(self) -> str:
        """How it is called, and the run of it."""
        return experiment_name(self.file)

    @cached_property
    def where(self) -> str:
        """The file from the root of the project."""
        file, root = resolved(self.file), resolved(self.root)
        return str(file.relative_to(root)) if file.is_relative_to(root) else str(file)

    @cached_property
    def places(self) -> Places:
        """Line and column of each value."""
        return _places(self.file, self.text)

    def place(self, *path: str | int) -> str:
        """A value as sentences name it: the file and the line."""
        return f"{self.where}:{self.places(path)[0]}"

    @property
    def options(self) -> dict[str, Any]:
        """The options of `tui-evals run` that it gives, by the names of their parameters."""
        model = self.model
        given: dict[str, Any] = {
            "repeats": model.repeats,
            "concurrency": model.concurrency,
            "max_cost": model.budget,
            "no_cache": not model.cache,
            "only": model.filter,
            "items": model.items,
            "limit": model.limit,
            "seed": model.seed,
            "name": self.name,
            "tags": tuple(model.tags),
            "sweep": tuple(f"{name}={','.join(map(_value, values))}" for name, values in (model.sweep or {}).items()),
            "without_judges": model.without_judges,
            "allow_unjudged": model.allow_unjudged,
            "outputs": tuple(map(self._path, model.outputs or ())),
            "baseline": self._baseline,
            **{name: _GATES[name].read(_GATES[name].alone if value is True else value) for name, value in self._gates},
        }
        return {name: value for name, value in given.items() if is_given(value)}

    @property
    def _gates(self) -> list[tuple[str, Any]]:
        return [(name, value) for name, value in self.model.gates.items() if is_given(value)]

    @property
    def _baseline(self) -> str | None:
        """The run to measure against, or its file from the folder of the experiment."""
        word = self.model.baseline or cast("str | None", dict(self._gates).get("baseline"))
        file = self._path(word) if word else None
        return str(file) if file is not None and file.is_file() else word

    def _path(self, name: str) -> Path:
        return self.file.absolute().parent / Path(name.removeprefix(_FILE)).expanduser()

    def settings(self, settings: Settings) -> Settings:
        """The settings of the project with the targets and judges that it describes itself."""
        described = {config.name: config for config in self._inline(settings.run)}
        return replace(settings, targets={**settings.targets, **described})

    def _inline(self, run: RunDefaults) -> Iterator[TargetConfig]:
        problems: list[Problem] = []
        for path, section in self._described():
            if "word" in section:
                continue
            given = {key: value for key, value in section.items() if key != "name"}
            name = str(section.get("name") or given.get("model") or "")
            faults = faults_in({"targets": {name: given}})
            if not name:
                faults = {("targets", name): "needs a name, or a model that names it"}
            if not faults and (unfit := unfit_target(name, TargetModel.model_validate(given))) is not None:
                faults = dict([unfit])
            for setting, sentence in faults.items():
                line, column = self.places((*path, *cast("tuple[str, ...]", setting[2:])))
                told = sentence.replace(f"targets.{name}", str(path[0]), 1)
                problems.append(_problem(told, path, line, column))
            if not faults:
                yield target_config(name, TargetModel.model_validate(given), run, self.place(*path))
        if problems:
            raise DatasetError(str(self.file), problems)

    def _described(self) -> Iterator[tuple[tuple[str | int, ...], _Section]]:
        """Every target and judge with its place in the file."""
        for key in ("targets", "judges"):
            for number, section in enumerate(getattr(self.model, key) or ()):
                yield (key, number), section
        if self.model.judge is not None:
            yield ("judge",), self.model.judge

    def targets(self, settings: Settings) -> tuple[TargetConfig, ...]:
        """The targets that it names; ConfigurationError where there is none of a name."""
        sections = enumerate(self.model.targets or ())
        return tuple(self._found(section, settings, "targets", number) for number, section in sections)

    def judge(self, settings: Settings) -> TargetConfig | None:
        """The judge that it names."""
        return None if self.model.judge is None else self._found(self.model.judge, settings, "judge")

    def _found(self, section: _Section, settings: Settings, *path: str | int) -> TargetConfig:
        word = section.get("word") or section.get("name") or section.get("model")
        return find_target(str(word), self.settings(settings), self.place(*path))

    @property
    def evaluators(self) -> Mapping[str, Mapping[str, Any]] | None:
        """The evaluators with their options instead of the dataset's."""
        return self.model.evaluators

    def prompts(self) -> tuple[Path | PromptUnderTest, ...]:
        """The prompts under test: files as paths, texts and messages as prompts."""
        return tuple(self._prompt_of(number, one) for number, one in enumerate(self.model.prompts or (), 1))

    def _prompt_of(self, number: int, prompt: PromptModel) -> Path | PromptUnderTest:
        name = prompt.name or f"prompt {number}"
        if prompt.file is not None:
            file = self._path(prompt.file)
            return file if prompt.name is None else replace(prompts_from([file])[0], name=name)
        if prompt.text is not None:
            return PromptUnderTest(name, parse_prompty(prompt.text))
        sections = tuple(Section(str(one.get("role")), str(one.get("content")), 1) for one in prompt.messages or ())
        return PromptUnderTest(name, Prompty({}, sections, ""))

    def document(self) -> tuple[Document, Path]:
        """The dataset of the experiment and the file that holds it; raises DatasetError."""
        data = self.model.data
        if data is None:
            raise DatasetError(str(self.file), [Problem("names no data. Add a line such as: data: evals/evals.json")])
        if data.items is None:
            file = self.data_file
            return load(file, data.columns), file
        items = [{("variables" if key == "vars" else key): part for key, part in one.items()} for one in data.items]
        lines = [self.places(("data", number))[0] for number in range(len(items))]
        document = as_document(items, "array")
        return Document(self.file, self.text, "inline", "parquet", document, lines), self.file

    @property
    def data_file(self) -> Path:
        """The file of its data."""
        name = (self.model.data.file if self.model.data is not None else None) or ""
        file = self._path(name)
        return file if file.exists() else dataset_named(Path(name), self.root)

    def permissions(self) -> list[Permission]:
        """The permissions it needs besides those of its targets: reading and writing outside the project."""
        root, wanted = resolved(self.root), []
        read = [self.data_file] if self.model.data is not None and self.model.data.file is not None else []
        read += [self._path(prompt.file) for prompt in self.model.prompts or () if prompt.file is not None]
        for file in map(resolved, read):
            if not file.is_relative_to(root):
                wanted.append(Permission("file", f"sends what {file} holds", self.where))
        for file in map(resolved, map(self._path, self.model.outputs or ())):
            if not file.is_relative_to(root):
                wanted.append(Permission("file", f"writes results to {file}", self.where))
        return wanted


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_experiment(file: Path, root: Path) -> Experiment:
    """The experiment of a file; DatasetError holds every problem with its line and column."""
    try:
        text = read_text(file, follow_out=True)
    except UnicodeDecodeError:
        raise DatasetError(str(file), [Problem("is not UTF-8 text; save the file as UTF-8")]) from None
    except OSError as error:
        raise DatasetError(str(file), [Problem(f"cannot be read: {error.strerror}")]) from None
    value = _value_of(file, text)
    if not isinstance(value, dict):
        raise DatasetError(str(file), [Problem("must hold names with values, such as data: evals/evals.json", line=1)])
    if problem := _of_another_kind(file, value):
        raise DatasetError(str(file), [problem])
    places = _places(file, text)
    problems = [*_bad_gates(value.get("gates"), places), *_bad_outputs(value, places)]
    try:
        model = ExperimentModel.model_validate(value)
    except ValidationError as errors:
        problems += [_fault(error, places) for error in errors.errors(include_url=False)]
        raise _refusal(file, problems) from None
    experiment = Experiment(file, root, text, model)
    if problems := [*problems, *_contradictions(model, places)]:
        raise _refusal(file, problems)
    return experiment


def _refusal(file: Path, problems: Sequence[Problem]) -> DatasetError:
    return DatasetError(str(file), sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0)))


def _value_of(file: Path, text: str) -> object:
    try:
        if file.suffix == ".toml":
            return tomllib.loads(text)
        return strictjson.loads(text) if file.suffix == ".json" else load_yaml(text)
    except tomllib.TOMLDecodeError as error:
        raise DatasetError(str(file), [Problem(f"not valid TOML: {error}")]) from None
    except strictjson.JsonError as error:
        raise DatasetError(str(file), [_problem(str(error), (), error.line, error.column)]) from None
    except YamlError as error:
        raise DatasetError(str(file), [_problem(error.problem, (), error.line, error.column)]) from None


def _problem(message: str, path: Place, line: int | None, column: int | None = None) -> Problem:
    return Problem(message, path, line, column=column)


_PROMPTFOO_KEYS = {"defaultTest", "evaluateOptions", "scenarios", "redteam"}


def _of_another_kind(file: Path, value: Mapping[str, Any]) -> Problem | None:
    """The problem of a file that is a dataset or belongs to another tool."""
    if file.stem == "promptfooconfig" or value.keys() & _PROMPTFOO_KEYS:
        return Problem(f"is a configuration of promptfoo. Bring it here: tui-evals import {file}")
    if file.suffix != ".toml" and "items" in value and isinstance(value["items"], list):
        return Problem("is a dataset: it has items. An experiment names it: data: FILE")
    return None


Places = Callable[[Place], tuple[int, int | None]]
"""The line and, where it is known, the column of a value."""


def _places(file: Path, text: str) -> Places:
    if file.suffix == ".toml":
        return lambda path: (line_of_setting(text, path), None)
    if file.suffix == ".json":
        layout = Layout(text)

        def of_json(path: Place) -> tuple[int, int | None]:
            offset = layout.locate(path)
            return layout.line_at(offset), offset - (text.rfind("\n", 0, offset) + 1) + 1

        return of_json
    places = places_in(text)

    def of_yaml(path: Place) -> tuple[int, int | None]:
        while path and path not in places:
            path = path[:-1]
        return line_in(places, path), places[path].column if path in places else None

    return of_yaml


def _fault(error: Any, places: Places) -> Problem:
    """An error of pydantic as a sentence, with its place."""
    path = tuple(part for part in error["loc"] if part != "[key]")
    if error["type"] == "extra_forbidden" and len(path) == 1:
        known = [name for name in ExperimentModel.model_fields if name != "schema_"]
        message = f"unknown name '{path[0]}'{did_you_mean(str(path[0]), known)}; known are {', '.join(known)}"
    else:
        message = problem_of(error, ExperimentModel).message
        message = f"{'.'.join(map(str, path))}: {message}"
    return _problem(message, (), *places(path))


def _contradictions(model: ExperimentModel, places: Places) -> Iterator[Problem]:
    """Data and prompts that are given in two ways, or in none."""
    data = model.data
    if data is not None and (data.file is None) == (data.items is None):
        yield _problem("data: give a file or items", (), *places(("data",)))
    if data is not None and data.items is not None and data.columns:
        yield _problem("data: columns belong to a file", (), *places(("data", "columns")))
    for number, prompt in enumerate(model.prompts or ()):
        if sum(one is not None for one in (prompt.file, prompt.text, prompt.messages)) != 1:
            yield _problem("prompts: give a file, a text or messages", (), *places(("prompts", number)))


def _bad_gates(gates: object, places: Places) -> Iterator[Problem]:
    for written, value in gates.items() if isinstance(gates, dict) else ():
        name = str(written).replace("-", "_")
        if (option := _GATES.get(name)) is None:
            message = f"gates: unknown gate '{name}'{did_you_mean(name, _GATES)}; there are {', '.join(_GATES)}"
            yield _problem(message, (), *places(("gates", written)))
        elif is_given(value):
            try:
                option.read(option.alone if value is True and option.alone else value)
            except ValueError as problem:
                yield _problem(f"gates.{written}: {problem}", (), *places(("gates", written)))


def _bad_outputs(value: Mapping[str, Any], places: Places) -> Iterator[Problem]:
    """Outputs in hidden folders, which other programs read as their configuration."""
    for key in ("outputs", "output", "outputPath"):
        written = value.get(key)
        for number, name in enumerate(written if isinstance(written, list) else [written]):
            if isinstance(name, str) and _HIDDEN.search(name.removeprefix(_FILE)):
                yield _problem(f"{key}: {name} is hidden. Name another place", (), *places((key, number)))


def with_experiment(project: Project, experiment: Experiment) -> Project:
    """The project with the targets of an experiment, and the variables that they refer to."""
    settings = experiment.settings(project.settings)
    if settings.variables <= project.settings.variables:
        return replace(project, settings=settings)
    trusting = project.trusting
    variables, _ = environment(project.root, project.env_name, settings.variables, trusting=trusting)
    return replace(project, settings=settings, environment=variables)


def project_of_run(run: RunRow, project: Project) -> Project:
    """The project with the targets of the experiment that a run was started from, while that file is there."""
    name = run.config.get(EXPERIMENT)
    file = project.root / name if isinstance(name, str) else None
    if file is None or not file.is_file():
        return project
    try:
        return with_experiment(project, read_experiment(file, project.root))
    except DatasetError as problem:
        raise ConfigurationError(str(problem)) from None


def readable_experiments(root: Path) -> Iterator[Experiment]:
    """The readable experiments of a project; errors of others are reported when they run."""
    for file in experiment_files(root):
        with suppress(DatasetError):
            yield read_experiment(file, root)


def swept_targets(words: Sequence[str], experiment: Experiment, settings: Settings) -> tuple[TargetConfig, ...]:
    """Typed targets whose parameters an experiment varies, so that they need the yes that its own targets need."""
    return tuple(find_target(word, settings, experiment.where) for word in words)


def problems_of(experiment: Experiment, settings: Settings) -> list[Problem]:
    """The problems of an experiment's references: its targets, judges, prompts and data."""
    problems: list[Problem] = []

    def check(what: Any, *path: str | int) -> None:
        try:
            what()
        except DatasetError as error:
            named = "" if error.source == str(experiment.file) else f"{error.source}: "
            problems.extend(Problem(f"{named}{one}", line=one.line if not named else None) for one in error.problems)
        except ConfigurationError as error:
            problems.append(Problem(str(error), line=experiment.places(path)[0]))

    check(lambda: experiment.settings(settings))
    if not problems:
        check(lambda: experiment.targets(settings), "targets")
        check(lambda: experiment.judge(settings), "judge")
    check(lambda: prompts_from(experiment.prompts()), "prompts")
    return problems


def json_schema() -> dict[str, Any]:
    """The JSON Schema of an experiment for editors."""
    schema = ExperimentModel.model_json_schema(mode="validation", by_alias=True)
    # Made here, because to make them when this is imported would hold up every run.
    schema["properties"]["data"]["anyOf"][-1] = DataModel.model_json_schema()
    schema["properties"]["prompts"]["anyOf"][0]["items"]["anyOf"][-1] = PromptModel.model_json_schema()
    schema["properties"]["gates"]["properties"] = {option.name: {"description": option.help} for option in OPTIONS}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "tui-evals experiment"}
