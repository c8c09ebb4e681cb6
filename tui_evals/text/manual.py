"""The pages of the manual, which the command line prints and the workbench shows."""

from __future__ import annotations

from importlib.resources import files


def pages() -> dict[str, str]:
    """The pages by name, as Markdown."""
    folder = files("tui_evals") / "help"
    files_by_name = {entry.name.removesuffix(".md"): entry for entry in folder.iterdir() if entry.name.endswith(".md")}
    return {name: files_by_name[name].read_text(encoding="utf-8") for name in sorted(files_by_name)}


def title_of(page: str) -> str:
    """What a page is about: its first heading."""
    return page.partition("\n")[0].removeprefix("# ").strip()
