"""Prompts that only keep a conversation going, as "yes, go ahead": no memory has anything to say to them."""

from __future__ import annotations

from tinymem.stores.words import words

__all__ = ["is_small_talk"]

# Words that say no more than "yes", "thanks" or "go on", in a few languages; the stop words of English come on top.
TALK = frozenset(
    """
    ack again agreed ahead alright amazing awesome back brilliant carry cheers choice clear confirmed continue
    cool correct course definitely done either else enough everything exactly excellent explaining explanation
    fair fantastic fine finish first fix following fourth funny get glad go going good got gotcha great happy
    help helping job keep last later latter leave left let lgtm like looking looks lot love lovely make makes
    much nah neat need neither next nice nope ok okay okey one option others otherwise perfect perfectly please
    pls previous proceed quite ready really redo repeat rest resume retry right second see seems sense ship skip
    something sounds start stop sure take thank thanks third three thx totally true try two ty understood wait
    want way well wonderful work working works worries yeah yep yes yup
    bye day evening goodbye haha hello hey hi hmm lol lunch morning night oh oops soon sorry today tomorrow welcome wow
    alles bitte danke das den der die doch einverstanden einfach erstmal es genau gern gerne gut gute guten hallo ja
    klar klasse klingt los mach mache machen mal morgen nein noch nochmal passt prima richtig schön sehr so super tag
    tschüss und verstanden vielen weiter weitermachen wunderbar
    accord avance bien bonjour bonsoir ca compris continuez en est merci non oui parfait salut suivant ça très va vas
    adelante así bueno buenas buenos claro continúa de días entendido está gracias hasta hola listo muchas muy
    perfecto por favor que sí si sigue siguiente vale
    avanti bene certo ciao continua perfetto prossimo sì va bem continue isso obrigada obrigado olá perfeito pronto sim
    да давай дальше нет ок пожалуйста понятно привет продолжай спасибо хорошо
    好的 好 的 是的 是 对 行 可以 可 以 继续 继 续 谢谢 谢 不 不用 用 没问 问题 没 问 题
    はい お願 願い 願 続け けて 続 了解 了 解
    """.split()  # noqa: SIM905 (a list of strings reads worse)
)
COUNTED = 2  # digits of a number that only counts or chooses, as in "option 2" or "2**14 - 1"


def is_small_talk(prompt: str) -> bool:
    """Return True for a prompt of nothing but such words, small numbers and signs.

    >>> [is_small_talk(text) for text in ("Yes, do that.", "ok, option 2", "Danke, mach weiter!", "12 * 4?", "👍")]
    [True, True, True, True, True]
    >>> is_small_talk("Yes, drain arm-03"), is_small_talk("3107")
    (False, False)
    """
    return all(word in TALK or (word.isdecimal() and len(word) <= COUNTED) for word in words(prompt))
