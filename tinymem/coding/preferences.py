"""Preferences: what people said of how a kind of task is done, for a prompt that asks for such a task.

"Never use red in charts" has no word in common with "Show the sales of May as bars". So a table says which words are of
one kind of tasks.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from tinymem.memory.hierarchy import HierarchicalMemory
from tinymem.recall.query.rules import is_rule
from tinymem.recall.snapshot import SAID
from tinymem.steps.standins import is_from_user
from tinymem.steps.step import Step

__all__ = ["Preferences"]

MOST = 3  # preferences that a prompt gets
LONGEST = 300  # characters of a prompt that say what it asks for
SHORT = 150  # characters of a preference, at most
NEWEST = 500  # short statements that are looked at

# Beginnings of words, or whole words, that are of one kind of tasks: those of how it is asked for among them
_KINDS = (
    r"charts?|plot|graphs?\b|diagram|histogram|heat ?map|ax[ei]s\b|bars\b|draw|visuali[sz]|grafik|graphique|gráfic|"
    r"диаграмм|график|图表|グラフ",
    r"tests?\b|testing|tested|pytest|unittest|mock|fixture|cover(?:age|s)?\b|assert|(?:check|verify|make sure) that|"
    r"prueba|тест|测试|テスト",
    r"e?mails?\b|e-mail|mailing|letters?\b|newsletter|repl(?:y|ies)|answer(?:ing)?\b|respond|write back\b|"
    r"invit|customers?\b|antwort|briefe?\b|kunden|répon|courriel|correo|письм|ответ|邮件|メール",
    r"commit|check(?:ed)? in\b|squash|amend",
    r"pull requests?|prs?\b|merge",
    r"push|publish|releas|deploy|roll(?:ed)? out|go live|veröffentlich|publi[ceé]",
    r"cod(?:e|ing)\b|functions?\b|methods?\b|class(?:es)?\b|scripts?\b|modules?\b|helper|refactor|implement|variable|"
    r"imports?\b|docstring|comments?\b|parse[rs]?\b|endpoint|component|programs?\b|shader|dependenc|frontend|backend|"
    r"automate|funktion|skript|fonction|función|функци|函数|関数",
    r"article|headline|documentation|docs\b|readme|guide|tutorial|blog|release notes|artikel|überschrift|статья|文档",
    r"summar|bullet|lists?\b|minutes of|zusammenfass|résum|listes?\b",
    r"translat|in (?:german|french|spanish|italian|english)\b|german|french|spanish|übersetz|auf deutsch|tradui|"
    r"traduc|перевод|翻译|翻訳",
    r"images?\b|photo|picture|icon|logo|screenshot|texture|assets?\b|sprite|sounds?\b|audio|music|bilder?\b|图片|画像",
    r"pdf|print(?:s|ed|ing)?\b|lay ?out|lay(?:ing)? out|margin|paper|druck|imprim",
    r"css|buttons?\b|theme|dark mode|menu|dialog\b|colou?r",
    r"sql\b|database|migration|schema|quer(?:y|ies)|datenbank|base de d|migraci",
    r"dates?\b|days? of|birthday|time ?zone|datum|fecha",
    r"amount|prices?\b|cents?\b|euros?\b|currenc|fees?\b|betrag|montant|importe",
    r"error messages?|error text|logs?\b|logging|logger|complain|validat|fehlermeldung",
    r"delet|remov|wipe|clean(?:s|ed)? up|lösch|supprim|borr|elimin|удал|删除|削除",
)
_WORDS = [
    re.compile(rf"(?<![^\W_])(?<!\.)(?:{words})|(?<=[^\x00-\u02ff])(?:{words})", re.IGNORECASE) for words in _KINDS
]
# The first line of a prompt that asks for something to be done: no question, and nothing that a program printed
_TASK = re.compile(
    r"\s*(?!.*(?:\berr\b|\berror[:\[]|exception|traceback))(?:(?:(?:can|could|would|will) (?:you|we)|how should|"
    r"(?:kannst|könntest) du|wie soll|p(?:eux|ourrais)-tu|puedes)\b.+|.+[^?？\s])\s*$",
    re.IGNORECASE | re.MULTILINE,
)
# What holds for all of a kind, or what somebody is to do whenever a case comes, and nothing behind it: "No test reads a
# unit. Write one." is a task, and its reason; or what an agent found that a person does
_GENERAL = re.compile(
    r"(?:^|[.!?;]\s+)(?!.*[.!?;]\s+\S)"
    r"(?:(?:(?!the\b|these\b|those\b)[\w'-]+ ){0,2}[\w'-]+s (?:in \w+ )?(?:are|go|have|stay|must|should|shall|need|"
    r"come|get|live|belong|use|end|start|begin|do|may|can|run|look|keep|remain|sollen|müssen|gehören|doivent|"
    r"sont|deben)\b|(?:every|each|all|no|any|jede[rsn]?|alle|chaque|tous|cada|todos)\b|(?:use|prefer|avoid|keep|put|"
    r"write|ask|answer|show|tell|call|name)\b.*\b(?:when|whenever|before|if|unless|in|with|only)\b)",
    re.IGNORECASE,
)
_HABIT = re.compile(
    r"you (?:always|never|write|use|order|sort|name|call|prefer|like|want|keep|put|avoid)\b|"
    r"your \w+ (?:is|are) \w+ed\b",
    re.IGNORECASE,
)


def kinds_of(text: str) -> set[int]:
    """Return the numbers of the kinds of tasks that the words of a text are of."""
    return {kind for kind, words in enumerate(_WORDS) if words.search(text)}


def kinds_of_task(prompt: str) -> set[int]:
    """Return the kinds of the task that a prompt asks for; none for a question."""
    asked = _TASK.match(prompt[:LONGEST])
    return kinds_of(asked[0]) if asked else set()


def kinds_of_preference(step: Step) -> set[int]:
    """Return the kinds of the tasks of which somebody says in few words how they are done.

    >>> from tinymem import MessageStep
    >>> said = MessageStep("user", "Thanks. Never use red in charts!")
    >>> kinds_of_preference(said) == kinds_of_task("Show the sales of May as bars.")
    True
    """
    text = step.text if len(step.text) <= SHORT else ""
    is_said = is_rule(text) or _GENERAL.search(text) if is_from_user(step) else not step.speaker and _HABIT.match(text)
    return kinds_of(text) if is_said else set()


class Preferences:
    """Preferences in a memory that keeps track of what people said.

    >>> from tinymem import HierarchicalMemory, MessageStep
    >>> with HierarchicalMemory(embedder="hashing:64") as memory:
    ...     added = memory.archive([MessageStep("user", "Never use red in charts.")])
    ...     print([step.text for step in Preferences(memory).of("Show the sales of May as bars.")])
    ['Never use red in charts.']
    """

    def __init__(self, memory: HierarchicalMemory) -> None:
        self._past = memory.long_term
        self._kinds: dict[int, set[int]] = {}  # of what the steps with these numbers say

    def of(self, prompt: str, but: Collection[int] = ()) -> list[Step]:
        """Return what people said of the kind of task that a prompt asks for, as corrected: the best first.

        That is what is of most of its kinds, and then the newest.

        Args:
            prompt: The prompt.
            but: The numbers of steps that are in front of the agent already.
        """
        asked = kinds_of_task(prompt)
        if not asked:
            return []
        self._read_new()
        shared = sorted(((len(asked & kinds), number) for number, kinds in self._kinds.items()), reverse=True)
        corrected = self._past.corrections
        numbers = dict.fromkeys(corrected.get(number, number) for count, number in shared if count)
        steps = self._past.fetch([number for number in numbers if number not in but][:MOST])
        return [steps[number] for number in numbers if number in steps]

    def _read_new(self) -> None:
        self._past.queue.catch_up()
        snapshot = self._past.current()
        is_said = (snapshot.kind == SAID) & (snapshot.end - snapshot.start <= SHORT)
        newest = dict.fromkeys(snapshot.step[is_said][-NEWEST:].tolist())
        new = [number for number in newest if number not in self._kinds]
        found = {number: kinds_of_preference(step) for number, step in self._past.fetch(new).items()}
        self._kinds = {number: kinds for number, kinds in (self._kinds | found).items() if number in newest}
