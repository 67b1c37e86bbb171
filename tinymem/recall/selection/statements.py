"""Statements: sentences of short texts that say what holds, and which of them says otherwise than an earlier one.

Told by form. Two texts are one sentence but for a value that only one can have at a time ("The capital of Italy is
Rome", "... is Turin"). Or the newer sentence has all words of the older one but a name or a number, and says that
something has changed ("The standup was moved to 10:30", "Correction: the oven starts at 2:50 now"). Or a clause of it
says that something is over, in words that all stand in the older text ("I used to love trail running", "the kitten
isn't called Biscuit any more"). Or it names the older value as one that holds no longer ("I sold the Skoda and bought
a Fiat", "UPS, not DHL"). Questions, long texts and what somebody else said count for nothing, nor do sentences about
"it": both may hold.

Each word has a letter before it, of its class: G for I and we, B for to be, S for other verbs of what holds, O and T
for articles, P, V, A, L, R and F for prepositions, D and I for denial, M for verbs of change, U and Y for other words
of it, H for those that say little, X for new; the others by what they look like. The classes have words of some
languages of Europe; what is said in others is compared by numbers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import product
from operator import attrgetter

__all__ = ["LONGEST", "Statement", "newest_statements"]

LONGEST = 400  # characters of a text that is read as a statement
MOST_CHANGES = 24  # the newest, with which each statement is compared
MOST_WORDS = 40  # of a sentence that is read as a statement

_SENTENCE_END = re.compile(r"(?<=[^\W_]{2}[.!?])(?<![A-Z][a-z]\.)\s+|(?<=[.!?][\"')\]])\s+|\n+")
_NOT_STATED = re.compile(r"^\W*\d+[.)]\s+|(?:^|(?<=[.!?？\n]))[^.!?？\n]*[?？][\"')\]]*")  # a number, questions
_WORD = re.compile(  # the key of a setting, before its value; a letter where no spaces say where words end; a comma
    r"^[\w.-]+\s*(?:=|:(?=\s*[\d\"']))|[\u3040-\ud7a3]|,(?= )|[^\W_\u3040-\ud7a3]+(?:[.,:/@'’_-][^\W_\u3040-\ud7a3]+)*"
)
_NOW = re.compile(
    r"\b(?:(?:correction|update|korrektur|corrección|correzione)(?=:)|from now on|now|instead(?! of)|jetzt|ahora"
    r"|maintenant|ora|adesso|agora|теперь|still|noch|todavía|encore|ancora|ainda)\b,?",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"\w+")
_WE = re.compile(r"^[GO].*")
_FIRST = re.compile("^C")  # a capital that says nothing
_LETTER = re.compile(
    r"""
    (?P<N>\d) | (?P<_>.*[=:]$)         # a number, a key
    | (?P<E>.*['’]s$)                  # an owner
    | (?P<D>.*n['’]t$)                 # a denial
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
- i'm i've i'll i'd you he he's she she's it it's they they're this that that's these those there
- there's here here's
- what who when how if so and but yes no oh let all some most both one sie er elle ça
G i we ich wir je nous yo io noi eu
B am is are was were ist sind war waren est sont était es son era è sono é são está están
S has plays died born speaks works worked work lives live comes goes runs uses costs starts begins holds belongs
S ends opens closes leads wohnt arbeitet lebt heißt habite travaille vive trabaja abita lavora
O my our mein meine unser unsere mon ma notre mi mis nuestro nuestra mio mia nostro meu minha
T the a an your his her its their der die das den dem ein eine einen le la les l un une el los las il
P to auf zu à al alle ad para na на naar till til
V of
A in at on um bei chez dans en в
L by with for as named called als por
R from von aus de da из с
F under behind above below beside near next inside outside without per über unter für mit pour sur con di
D not no never longer nicht kein keine keinen mehr pas ne plus jamais ya non più mai não не больше
I instead rather statt anstatt lieu lugar invece вместо
M raised lowered increased reduced postponed extended left quit moved switched changed replaced renamed sold
M swapped traded cancelled verkauft ersetzt getauscht gewechselt gezogen vendu remplacé
M changé déménagé quitté vendí vendido cambié cambió cambiado mudé venduto cambiato
U used any anymore more gave stopped
Y now jetzt ahora maintenant ora adesso agora теперь correction korrektur corrección correzione
H up finished completed me want about love loved like liked enjoy enjoyed enjoying into fan really be been being
H may can will have had do did just actually
X new neue neuer neues nouveau nouvelle nuevo nueva nuovo nuova novo nova
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
_NAMED = _form(".*(?:B([^BAPRVLTO]+)|[APRVLTO](C[^BAPRVLTO]*))$")  # a value at the end
_OVER = re.compile(  # what was so until now, or is so no longer
    r"""
    \b(?:(?<!be\ )(?<!is\ )(?<!was\ )(?<!re\ )(?<!['’]m\ )(?<!get\ )(?<!got\ )(?<!not\ )(?<!ing\ )used\ to(?=\ \w)
    |ya\ no|sold|quit|replaced|swapped|traded|cancelled|gave\ up|stopped|verkauft)(?![\w-])
    |(?:\b(?:no|not|never|nicht|keine?[mnrs]?|ne|non|больше)\b|n['’]t?\b).*\b(?:longer|any\ ?more|mehr|plus|più|не)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
_CLAUSE_END = re.compile(r"[.,;:!?…\n]+(?:\s|$)|\s[–—-]\s|\b(?:but|so|aber|mais|pero|ma)\b", re.IGNORECASE)
_OWN = re.compile(r"\b(?:I|we|our|ich|wir|je|j|yo|io|noi)\b", re.IGNORECASE)
_LAST = re.compile(r"(?<= )([wseCN]\S* [wseCN]\S* )[wse]\S* $")  # "films" of "Robert Eggers films"
_CHANGES = {word for word, letter in _LETTERS.items() if letter in "IMY"}
_HINTS = {word for word, letter in _LETTERS.items() if letter in "DIMUY"}  # without one, nothing is over or changed
_VALUE = re.compile(r"\d|(?<=\w )(?!I\b)[A-ZÀ-ÖØ-ÞА-ЯЁ]")
_SET = _form("^R|P[TO]*C*[CN]|[TO]X")  # a sentence that may give something another value
_OTHER = re.compile(r"=+e?=*(?:C{1,3}|N{1,3}={0,2})?")  # one value, where all the rest is in both
_ENDING = re.compile(r"(?:['’]?s|(?<=\w{4})ing)$")
_LITTLE = {*",-GBSOTPVALRFDIMUXYH"}
# A value that holds no longer, at last of the same person
_LEFT = _form("(?:D(?=T*C)|I[VRALF]?)T*(C+|.)|RT*(C+)P|(?=MT*C|C+M)M?T*(C+)")


@dataclass(eq=False)
class Statement:
    """A sentence, who said it as what, and when: statements have an order of time by it.

    Who said it is named, else it is its session, since others may speak in each; and what says itself that something
    has changed takes back what anybody without a name said. One that is alone is all that was said.
    """

    text: str
    by: tuple[object, object]
    when: tuple[datetime, int]
    is_alone: bool = True

    @classmethod
    def all_of(cls, text: str, by: tuple[object, object], when: tuple[datetime, int]) -> list[Statement]:
        """Return the sentences of a text, but for questions."""
        sentences = _SENTENCE_END.split(_NOT_STATED.sub("", text).strip())
        return [cls(sentence, by, when, len(sentences) == 1) for sentence in sentences]

    @cached_property
    def tagged(self) -> str:
        """Its words, each with its letter; "" where it says not what it is about."""
        tagged = _tag(self.text)
        return "" if _PRONOUN.match(tagged) else tagged

    @property
    def claim(self) -> str:
        """Its words with their letters, where it is alone."""
        return self.tagged if self.is_alone else ""

    @cached_property
    def words(self) -> dict[str, str]:
        """The beginnings of its words that say something."""
        return _content(self.tagged)

    @cached_property
    def said(self) -> set[str]:
        """All its words."""
        return {*_PLAIN.findall(self.text.lower())}

    @cached_property
    def spoken(self) -> str:
        """All its words, each behind a space, in small letters, and "I" where its speaker speaks of himself."""
        return " ".join(["", *_WORD.findall(_OWN.sub("I", self.text.lower()))])

    @cached_property
    def over(self) -> list[list[str]]:
        """The words of each clause that says that something is over, and "I" where its speaker speaks of himself."""
        things: list[list[str]] = []
        for clause in filter(_OVER.search, _CLAUSE_END.split(self.text)):
            words = _content(_LAST.sub(r"\1", _tag(clause)))
            if len(words) > 1 or {*"CN"} & {*words.values()}:  # one word of a language says too little
                things.append([*words, *["I"] * bool(_OWN.search(clause))])
        return things

    @cached_property
    def is_change(self) -> bool:
        """True if it says itself that something is not as it was."""
        return bool(_HINTS & self.said and (_CHANGES & self.said or self.over))

    @cached_property
    def is_setting(self) -> bool:
        """True if it may give something another value."""
        return self.is_change or _SET.search(self.claim) is not None

    @cached_property
    def subject(self) -> str:
        """The first of its words that say something, where it may have a value, but of what its speaker does."""
        return next(iter(self.words), "") if _VALUE.search(self.text) and "G" not in self.tagged else ""

    def has_all(self, words: Iterable[str]) -> bool:
        """Return whether it has words that begin so."""
        return all(f" {word}" in self.spoken for word in words)

    def takes_back(self, older: Statement) -> bool:
        """Return whether it says that what the older one speaks of is over, or has all its words but a value."""
        if self.when <= older.when or self.by[self.is_change] != older.by[self.is_change]:
            return False
        if self.is_change and any(map(older.has_all, self.over)):
            return True
        if not self.is_setting or older.subject not in self.words:
            return False
        kinds, others = _kinds(older.words, self.words), _kinds(self.words, older.words)
        value = kinds.strip("=")[-1:] or ("N" if {*"DIM"} & {*self.tagged} and "N" in older.words.values() else "-")
        return bool(_OTHER.fullmatch(kinds)) and re.search(f"=.*{value}", others) is not None

    @property
    def person(self) -> str:
        """Its first word: who it is about."""
        return _WE.sub("G", self.claim.partition(" ")[0])

    @cached_property
    def frames(self) -> dict[str, str]:
        """Its values, by the words around them: a later statement with another value supersedes it."""
        tagged, single = self.claim, _SINGLE.match(self.claim)
        frames = {_DENIED.sub("", tagged): tagged}
        if _MEASURED.match(tagged):
            frames[_NUMBER.sub("# ", tagged)] = tagged
        elif single:
            frames[f"{single[1]}|"] = tagged
        return frames

    @cached_property
    def old(self) -> dict[str, str]:
        """Its values, by what a later statement may say otherwise."""
        old, named = {**self.frames}, _NAMED.match(self.claim)
        if named:
            value = named[1] or named[2]
            old |= {f"left {value}": "", f"left {self.person}{value}": ""}
        return old

    @cached_property
    def new(self) -> dict[str, str]:
        """Its claims, by what an earlier statement may say otherwise."""
        new, tagged = {**self.frames}, self.claim
        for left in _LEFT.finditer(tagged):
            new[f"left {left[1] or left[2] or self.person + left[3]}"] = tagged
        return new


def _tag(sentence: str) -> str:
    """Put the letter of its class, or of what it looks like, before each word of a sentence."""
    words = _WORD.findall(_NOW.sub("", sentence).lstrip())[:MOST_WORDS]
    letters = (_LETTERS.get(word.lower()) or next(_LETTER.finditer(word)).lastgroup for word in words)
    tagged = "".join(f"{letter}{word.lower()} " for letter, word in zip(letters, words, strict=True))
    return _FIRST.sub("w", tagged)


def _content(tagged: str) -> dict[str, str]:
    """Return the words that say something, each with its letter, without their endings."""
    said = (word for word in tagged.split() if word[0] not in _LITTLE)
    words = ((_ENDING.sub("", word[1:]), word[0]) for word in said)
    return {word[:5] if word.isalpha() else word: letter for word, letter in words}


def _kinds(words: Mapping[str, str], others: Collection[str]) -> str:
    """Return the letters of words, with = for those that are among the others."""
    return "".join("=" if word in others else letter for word, letter in words.items())


def newest_statements(statements: Iterable[Statement], now: datetime) -> dict[Statement, Statement]:
    """Return, by each statement that is superseded, the newest one of its source that does so up to `now`.

    >>> texts = enumerate(["The standup is at 9:30.", "The standup was moved to 10:30."])
    >>> old, new = (Statement(text, ("ann", "ann"), (datetime(2026, 5, 1), number)) for number, text in texts)
    >>> newest_statements([old, new], datetime(2026, 5, 2)) == {old: new}
    True
    """
    known = sorted((statement for statement in statements if statement.when[0] <= now), key=attrgetter("when"))
    newest: dict[tuple[object, str], Statement] = {}
    for new in known:
        for place in product(new.by[: 1 + new.is_change], new.new if new.is_alone else ()):
            newest[place] = new
    changes = [new for new in known if new.is_setting][-MOST_CHANGES:]
    found: dict[Statement, Statement] = {}
    for old in known:
        later = [new for new in changes if new.takes_back(old)]
        for by, key in product(old.by, old.old if old.is_alone else ()):
            new = newest.get((by, key), old)
            if new.when > old.when and new.new[key] != old.old[key]:
                later.append(new)
        if later:
            found[old] = max(later, key=attrgetter("when"))
    return found
