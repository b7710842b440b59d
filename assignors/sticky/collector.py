"""Keep the cyclic garbage collector away from work that makes very many objects and no cycles."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


_MANY = 10_000


@contextmanager
def without_collector(*, pause: bool = True) -> Iterator[None]:
    """Switch the collector off, in the whole process, and then leave it as it was, exceptions or not.

    The collector looks at what is new again and again, and without this takes up to a third of the time of
    a large assignment. What is new afterwards, a plan with its thousands of mappings, would be looked at twice
    more before it counts as old. So if it is much, all objects are declared old at the end (`gc.freeze` and
    `gc.unfreeze`, which move lists and look at nothing): what is garbage in cycles by then, of other threads
    too, is found by the next full collection. A program that has frozen objects itself is left alone.

    Args:
        pause: False leaves the collector alone.
    """
    if not pause:
        yield
        return
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if gc.get_count()[0] > _MANY and hasattr(gc, "freeze") and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
