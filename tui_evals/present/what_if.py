"""What other thresholds, weights, values of labels or pass rules would change, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tui_evals.present.runs import Column
from tui_evals.runs.rescoring import Rule
from tui_evals.runs.what_if import WhatIf
from tui_evals.text.measures import counted, plain_number
from tui_evals.text.safe import safe_line


def rule_words(rule: Rule) -> str:
    """A rule as a phrase."""
    if rule.name == "pass rule":
        return f"a pass rule of {100 * rule.value:.0f} % of the weights"
    if rule.name == "scale":
        return f"{_label_of(rule)} worth {plain_number(rule.value)}"
    return f"a {rule.name} of {plain_number(rule.value)} for {safe_line(rule.key, 40)}"


def _label_of(rule: Rule) -> str:
    return f"{safe_line(rule.label, 40)} on the scale of {safe_line(rule.key, 40)}"


def rule_entry(rule: Rule) -> tuple[str, str]:
    """What a rule is called in a list, and its value now."""
    if rule.name == "pass rule":
        return "pass rule", f"an answer needs {100 * rule.value:.0f} % of its weights"
    if rule.name == "scale":
        return f"scale of {safe_line(rule.key, 40)}: {safe_line(rule.label, 40)}", f"now {plain_number(rule.value)}"
    return f"{rule.name} of {safe_line(rule.key, 40)}", f"now {plain_number(rule.value)}"


def rule_text(rule: Rule, now: Rule) -> str:
    """A rule with the value it has now."""
    value, before = plain_number(rule.value), plain_number(now.value)
    if rule.name == "pass rule":
        return f"an answer passes with {100 * rule.value:.0f} % of its weights, now {100 * now.value:.0f} %"
    if rule.name == "scale":
        return f"{_label_of(rule)} is worth {value}{'' if value == before else f', now {before}'}"
    return f"the {rule.name} of {safe_line(rule.key, 40)} is {value}{'' if value == before else f', now {before}'}"


def what_if_phrases(found: WhatIf, names: Mapping[Column, str]) -> Sequence[str]:
    """What changes in a few words each: how many answers, people's verdicts, then the columns whose rate moves."""
    total = len(found.statuses) + found.open
    phrases = [f"{len(found.changed):,} of {counted(total, 'judged answer')} change"]
    if found.contradicted or found.contradicted_before:
        phrases.append(f"{found.contradicted_before:,} → {found.contradicted:,} contradict people's verdicts")
    if found.open:
        phrases.append(f"{found.open:,} have to be judged again to know")
    moved = ((column, *both) for column, both in found.columns.items() if both[0] != both[1])
    phrases += [f"{names[column]} {100 * one.share:.0f} → {100 * two.share:.0f} %" for column, one, two in moved]
    return phrases


def what_if_lines(found: WhatIf, names: Mapping[Column, str]) -> Sequence[str]:
    """The answers that change, the pass rate of each column before and after, and what is unknown."""
    counted = f"{len(found.changed):,} of {len(found.statuses) + found.open:,} answers change"
    turned = Counter((one.before, one.after) for one in found.changed)
    moves = ", ".join(f"{count:,} {before} → {after}" for (before, after), count in turned.most_common())
    lines = [f"{counted}{': ' if moves else ''}{moves}. Nothing was asked and nothing is stored."]
    for column, (before, after) in found.columns.items():
        if before.judged or after.judged:
            lines.append(
                f"{names[column]}: {100 * before.share:.0f} → {100 * after.share:.0f} % pass "
                f"({before.passed:,} → {after.passed:,} of {after.judged:,})"
            )
    if found.contradicted or found.contradicted_before:
        lines.append(f"{found.contradicted_before:,} → {found.contradicted:,} contradict people's verdicts")
    if found.open:
        lines.append(f"{found.open:,} have to be judged again to know; they count as they are")
    return lines
