"""Statements: short texts that say what holds, and which of them says otherwise than an earlier one.

Told by form: the same subject, the same property, another value. Either both are one sentence but for a value that only
one can have at a time ("The capital of Italy is Rome", "... is Turin"); or the newer one says to what the older one's
subject went ("The standup was moved to 10:30"), or names the older value as one that holds no longer ("I sold the
Skoda and bought a Fiat", "UPS, not DHL"). Questions, long texts and what somebody else said count for nothing, nor do
sentences about "it": both may hold.

Each word has a letter before it, of its class: G for I and we, B for to be, S for other verbs of what holds, O and T
for articles, P, V, A, L, R and F for prepositions, D and I for denial, M for verbs of change, X for new; the others by
what they look like. The classes have words of some languages of Europe; what is said in others is compared by numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from operator import attrgetter

__all__ = ["LONGEST", "Statement", "newest_statements"]

LONGEST = 400  # characters of a text that is read as a statement
MOST_WORDS = 40  # of a sentence that is read as a statement

_SENTENCE_END = re.compile(r"(?<=[^\W_]{2}[.!?])(?<![A-Z][a-z]\.)\s+|(?<=[.!?][\"')\]])\s+|\n+")
_NOT_STATED = re.compile(r"^\W*\d+[.)]\s+|(?:^|(?<=[.!?？\n]))[^.!?？\n]*[?？][\"')\]]*")  # a number, questions
_WORD = re.compile(  # the key of a setting, before its value; a letter where no spaces say where words end; a comma
    r"^[\w.-]+\s*(?:=|:(?=\s*[\d\"']))|[\u3040-\ud7a3]|,(?= )|[^\W_\u3040-\ud7a3]+(?:[.,:/@'’_-][^\W_\u3040-\ud7a3]+)*"
)
_NOW = re.compile(
    r"\b(?:from now on|now|still|instead(?! of)|jetzt|noch|ahora|todavía|maintenant|encore|ora|adesso|ancora|agora"
    r"|теперь)\b,?",
    re.IGNORECASE,
)
_WE = re.compile(r"^[GO].*")
_FIRST = re.compile("^C")  # a capital that says nothing
_AMOUNT = re.compile(r"[\d.,]+")
_LETTER = re.compile(
    r"""
    (?P<N>\d) | (?P<_>.*[=:]$)         # a number, a key
    | (?P<E>.*['’]s$)                  # an owner
    | (?P<C>.*[\dA-ZÀ-ÖØ-ÞΑ-ΩА-ЯЁ])    # what has a capital or a digit, as names have
    | (?P<K>[\u1100-\U0010ffff])       # of Chinese, Japanese, Korean
    | (?P<s>.{,3}$)                    # a short word, which may stand between numbers: "8 h 10", "12 to 15"
    | (?P<e>.*(?:ed|n)$)               # a participle, in English and German
    | (?P<w>)                          # another word
    """,
    re.VERBOSE,
)
_LETTERS: dict[str, str] = {}
for _line in """
, ,
- i'm i've i'll i'd you he he's she she's it it's they they're this that that's these those there there's here here's
- what who when how if so and but yes no oh let all some most both one sie er elle ça
G i we ich wir je nous yo io noi eu
B am is are was were ist sind war waren est sont était es son era è sono é são está están
S has plays died born speaks works worked work lives live comes goes runs uses costs starts begins holds belongs ends
S opens closes leads wohnt arbeitet lebt heißt habite travaille vive trabaja abita lavora
O my our mein meine unser unsere mon ma notre mi mis nuestro nuestra mio mia nostro meu minha
T the a an your his her its their der die das den dem ein eine einen le la les l un une el los las il
P to auf zu à al alle ad para na на naar till til
V of
A in at on bei chez dans en в
L by with for as named called als por
R from von aus de da из с
F under behind above below beside near next inside outside without per über unter für mit pour sur con di
D not no never longer nicht kein keine mehr pas plus jamais ya non più mai não не больше
I instead rather statt anstatt lieu lugar invece вместо
M left quit moved switched changed replaced renamed sold swapped traded cancelled verkauft ersetzt getauscht gewechselt
M gezogen vendu remplacé changé déménagé quitté vendí vendido cambié cambiado mudé venduto cambiato
X new current updated neue neuer neues nouveau nouvelle nuevo nueva nuovo nuova novo nova
""".strip().splitlines():
    _letter, *_words = _line.split()
    _LETTERS |= dict.fromkeys(_words, _letter)


def _form(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which a letter, a dot, or a set of letters stands for a word with its letter before it."""
    return re.compile(re.sub(r"\[[^]]+\]|[A-Za-z_.]", r"(?:\g<0>\\S* )", "".join(pattern.split())))


_PRONOUN = _form("-|T[BS]")  # at the beginning: it does not say what a sentence is about
# The number of a thing, and no event of somebody's
_MEASURED = _form("(?:(?!G)(?=[^N][^N])(?:[^N]?[TO]|[^N]*[BS])[^N]*|KK+|_)N(?:[^weBSN]*N)*[^NBS]*$")
_NUMBER = _form("C*NC*")
_DENIED = _form("D+")
_SINGLE = _form(  # behind what only one value may stand at a time, and the value
    """
    (_(?=.$)
    |.*?E.*?B(?=.)
    |(?:[TO].+?B|(?!G.*B)(?:.+?S|.+?B(?!w[AP])).*?[APRLV])(?=T?[NC])
    |(?:[TO].*V.*?B|(?!G.*B).+?[BS].*?V)(?=.)
    |.+?B(?=[APRLVF]..)
    )(.{1,7})$
    """
)
_CLAIM = _form(  # a subject, and the value behind its verb
    """
    [TO]?([^BG_]+?)(?:B(?:[^BNC]*?(?=C*N)|[AL]?(?=C))|[ALPR][TO]?(?=C+$|[^BALPR]*N[^BALPR]*$)|[^BGN](?=C*N[^B]*$))
    (C*(N).?|C)
    """
)
_WENT = _form("(.+?)(?:P|BA?|T(?=T))[TO]*(C*(N).?|C)")  # from a subject on: to what it went
_END = re.compile(" (?![ALFRV])")  # of what may be its subject
_START = _form("^|[TOX]")
_NAMED = _form(".*(?:B([^BAPRVLTO]+)|[APRVLTO](C[^BAPRVLTO]*))$")  # a value at the end
# A value that holds no longer, at last of the same person
_LEFT = _form("(?:D|I[VRALF]?)T*(C+|.)|RT*(C+)P|(?=MT*C|C+M)M?T*(C+)")


@dataclass(eq=False)
class Statement:
    """A short text, who said it as what, and when: statements have an order of time by it.

    Who is named as its speaker said it, else its session, since others may speak in each.
    """

    text: str
    by: object
    when: tuple[datetime, int]

    @cached_property
    def tagged(self) -> str:
        """The words of its only sentence, but for questions, each with its letter; "" where it says of nothing."""
        stated = _NOT_STATED.sub("", self.text).strip()
        if _SENTENCE_END.search(stated):
            return ""
        words = _WORD.findall(_NOW.sub("", stated))[:MOST_WORDS]
        tagged = _FIRST.sub("w", "".join(map(_tag, words)))
        return "" if _PRONOUN.match(tagged) else tagged

    @property
    def person(self) -> str:
        """Its first word: who it is about."""
        return _WE.sub("G", self.tagged.partition(" ")[0])

    @cached_property
    def frames(self) -> dict[str, str]:
        """Its values, by the words around them: a later statement with another value supersedes it."""
        tagged, single = self.tagged, _SINGLE.match(self.tagged)
        frames = {_DENIED.sub("", tagged): tagged}
        if _MEASURED.match(tagged):
            frames[_NUMBER.sub("# ", tagged)] = tagged
        elif single:
            frames[f"{single[1]}|"] = tagged
        return frames

    @cached_property
    def old(self) -> dict[str, str]:
        """Its values, by what a later statement may say otherwise."""
        old, claim, named = {**self.frames}, _CLAIM.match(self.tagged), _NAMED.match(self.tagged)
        if claim and (claim[3] or self.tagged[0] in "TO"):
            old[_key(claim[1], claim)] = claim[2]
        if named:
            value = named[1] or named[2]
            old |= {f"left {value}": "", f"left {self.person}{value}": ""}
        return old

    @cached_property
    def new(self) -> dict[str, str]:
        """Its claims, by what an earlier statement may say otherwise."""
        new, tagged = {**self.frames}, self.tagged
        for start in _START.finditer(tagged):
            if went := _WENT.match(tagged, start.end()):
                for end in _END.finditer(tagged, start.end(), went.end(1)):
                    new[_key(tagged[start.end() : end.end()], went)] = went[2]
        for left in _LEFT.finditer(tagged):
            new[f"left {left[1] or left[2] or self.person + left[3]}"] = tagged
        return new


def _tag(word: str) -> str:
    """Put its letter before a word: that of its class, or of what it looks like."""
    return f"{_LETTERS.get(word.lower()) or next(_LETTER.finditer(word)).lastgroup}{word.lower()} "


def _key(subject: str, found: re.Match[str]) -> str:
    """Return a subject with what is left of a number and the word behind it without the digits; "C" for a name."""
    return f"{subject}|{_AMOUNT.sub('', found[2]) if found[3] else 'C'}"


def newest_statements(statements: Iterable[Statement], now: datetime) -> dict[Statement, Statement]:
    """Return, by each statement that is superseded, the newest one of its source that does so up to `now`.

    >>> texts = enumerate(["The standup is at 9:30.", "The standup was moved to 10:30."])
    >>> old, new = (Statement(text, "ann", (datetime(2026, 5, 1), number)) for number, text in texts)
    >>> newest_statements([old, new], datetime(2026, 5, 2)) == {old: new}
    True
    """
    known = [statement for statement in statements if statement.tagged and statement.when[0] <= now]
    newest: dict[tuple[object, str], tuple[Statement, str]] = {}
    for statement in sorted(known, key=attrgetter("when")):
        newest |= {(statement.by, key): (statement, value) for key, value in statement.new.items()}
    found: dict[Statement, Statement] = {}
    for statement in known:
        for key, value in statement.old.items():
            newer, said = newest.get((statement.by, key), (statement, value))
            if said != value and newer.when > found.get(statement, statement).when:
                found[statement] = newer
    return found
