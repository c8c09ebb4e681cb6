"""Taking in datasets of other tools: evaluations of Prompt Foundry, configurations of promptfoo; and our own."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tui_evals.cli.opening import DATASETS
from tui_evals.cli.output import Stop
from tui_evals.datasets.document import load
from tui_evals.datasets.layout import Layout
from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.validate import parse_dataset, with_lines
from tui_evals.imports import foundry as foundry_format
from tui_evals.imports import promptfoo
from tui_evals.imports.losses import Loss, Losses
from tui_evals.imports.promptfoo.reading import NAMES
from tui_evals.text import strictjson

from .imported import Imported, ImportOptions, shown, text_of, write_whole

_PLACE = re.compile(r"(?:evaluations|assertions|prompts)?(?:\[\d+\]|\.\w+)+|prompt")
_PART = re.compile(r"\[(\d+)\]|(\w+)")
_NO_NAME = re.compile(r"[^\w.-]+")


def is_foundry(path: Path) -> bool:
    """Whether a file holds evaluations of Prompt Foundry."""
    return foundry_format.is_foundry(parsed(path)) if path.suffix.lower() == ".json" else False


def is_dataset(path: Path) -> bool:
    """Whether a file is named as datasets are."""
    return path.name.lower().endswith(DATASETS) and path.is_file()


def parsed(path: Path) -> object:
    """The value of a JSON file, of its first line where it holds one on each; None where there is neither."""
    if not path.is_file():
        return None
    text = text_of(path)
    for part in (text, text.lstrip().partition("\n")[0]):
        try:
            return strictjson.loads(part)
        except strictjson.JsonError:
            continue
    return None


def foundry(path: Path, wish: ImportOptions) -> Imported:
    """Evaluations of Prompt Foundry as a dataset with their prompt in it."""
    text = text_of(path)
    try:
        data, losses = foundry_format.read(text, str(path), wish.prompt)
    except DatasetError as problem:
        hint = "; `--prompt NAME` chooses one" if "say which to import" in str(problem) else ""
        raise Stop(f"{problem}{hint}") from None
    file = wish.file(path, path.name.removesuffix(".json"))
    losses = _with_lines(losses, text, path)
    return _written(path, file, _checked(data, path), losses, f"tui-evals run {_word(file)} --target NAME")


def _with_lines(losses: Losses, text: str, path: Path) -> Losses:
    """The report with the lines of the places that are named as they stand in the file."""
    layout = Layout(text)
    return Losses([_with_line(loss, layout, path) for loss in losses.entries])


def _with_line(loss: Loss, layout: Layout, path: Path) -> Loss:
    if not _PLACE.fullmatch(loss.where):
        return loss
    parts = [int(number) if number else name for number, name in _PART.findall(loss.where)]
    return replace(loss, where=f"{path}:{layout.line(tuple(parts))}: {loss.where}")


def config(path: Path, wish: ImportOptions) -> Imported:
    """A configuration of promptfoo as a dataset, with its prompts in it or as files beside it."""
    source = _config_file(path)
    try:
        found, losses = promptfoo.read_config(text_of(source), str(source), source.parent)
    except DatasetError as problem:
        raise Stop(str(problem)) from None
    default = source.resolve().parent.name if source.name in NAMES else source.stem
    file = wish.file(source, default or "promptfoo")
    prompts = _prompt_files(found.prompts, file, losses) if len(found.prompts) > 1 else {}
    data = {**found.data, **_first(found.prompts, prompts, losses)}
    _say_targets(found.targets, losses)
    asked = " ".join(f"--target {shlex.quote(target.model)}" for target in found.targets) or "--target NAME"
    given = "".join(f" -p {_word(one)}" for one in prompts) or ("" if found.prompts else " -p PROMPT")
    following = f"tui-evals run {_word(file)}{given} {asked}"
    return _written(path, file, _checked(data, source), losses, following, prompts)


def _first(prompts: Sequence[promptfoo.Prompt], files: dict[Path, str], losses: Losses) -> dict[str, Any]:
    """The prompt under test where a run names none, of several."""
    if files:
        return {"prompt_file": next(iter(files)).name}
    if len(prompts) < 2:
        return {}
    losses.changed(f"the prompt {prompts[0].name}", prompts[0].where, "it stands in the dataset as messages")
    return {"messages": [dict(message) for message in prompts[0].messages]}


def _config_file(path: Path) -> Path:
    if not path.is_dir():
        return path
    found = next((path / name for name in NAMES if (path / name).is_file()), None)
    if found is None:
        raise Stop(f"{path} holds none of {', '.join(NAMES)}; name the configuration itself")
    return found


def _prompt_files(prompts: Sequence[promptfoo.Prompt], file: Path, losses: Losses) -> dict[Path, str]:
    """The prompts as prompt files beside the dataset; one that no such file can hold is said to be left out."""
    texts = [promptfoo.prompty_text(prompt) for prompt in prompts]
    for number, (prompt, text) in enumerate(zip(prompts, texts, strict=True)):
        if text is None and (number or any(texts)):
            losses.left_out(f"the prompt {prompt.name}", prompt.where, "a prompt file cannot hold its messages")
    named = zip(_stems(prompts), texts, strict=True)
    return {file.with_name(f"{file.stem}-{stem}.prompty"): text for stem, text in named if text is not None}


def _stems(prompts: Sequence[promptfoo.Prompt]) -> Iterator[str]:
    """A name of a file for each prompt, no two the same."""
    taken: set[str] = set()
    for number, prompt in enumerate(prompts, 1):
        name = Path(prompt.name).stem if prompt.name.startswith(prompt.where) and prompt.where else prompt.name
        stem = _NO_NAME.sub("-", name).strip("-.").lower()[:40] or str(number)
        while stem in taken:
            stem = f"{stem}-{number}"
        taken.add(stem)
        yield stem


def _say_targets(targets: Sequence[promptfoo.Provider], losses: Losses) -> None:
    """Note what of a target is said in the settings, not on the command line."""
    for target in targets:
        given = [*target.params, *(name for name in ("base_url", "api_key") if getattr(target, name) is not None)]
        if given:
            why = f"a section [targets.NAME] of .evals/config.toml with model = {target.model!r} takes them"
            losses.left_out(f"{', '.join(given)} of {target.name or target.model}", why=why)


def _checked(data: dict[str, Any], path: Path) -> dict[str, Any]:
    dataset, problems = parse_dataset(data)
    if dataset is None:
        raise Stop(str(DatasetError(str(path), problems)))
    return data


def _written(
    path: Path, file: Path, data: dict[str, Any], losses: Losses, following: str, prompts: dict[Path, str] | None = None
) -> Imported:
    outcome = write_whole(data, file, prompts or {})
    return Imported(
        read=str(path),
        dataset=shown(file),
        dataset_is=outcome,
        prompts=tuple(shown(one) for one in prompts or ()),
        items=len(data["items"]),
        losses=tuple(losses.entries),
        next=following,
    )


def _word(file: Path) -> str:
    return shlex.quote(shown(file))


def dataset(path: Path, wish: ImportOptions) -> Imported:
    """Our own dataset, which stays where it is."""
    try:
        document = load(path)
        found, problems = parse_dataset(document.data)
        if found is None:
            raise DatasetError(str(path), with_lines(problems, document))
    except DatasetError as problem:
        raise Stop(f"{problem}\n`--from KIND` says of what kind the file is, if it is no dataset") from None
    if wish != ImportOptions():
        raise Stop(f"{path} is a dataset already and needs no import; `tui-evals convert` writes it as another format")
    return Imported(
        read=str(path),
        dataset=str(path),
        dataset_is="none needed",
        items=len(found.items),
        next=f"tui-evals run {shlex.quote(str(path))} --target NAME",
    )
