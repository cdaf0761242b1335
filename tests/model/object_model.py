#!/usr/bin/python3
"""object_model.py - one object of a pair that is made, deleted and made again.

A file may leave a pair and come back to it (rebalance, replace): the manager gives each placing a new generation, and tells the pair to
delete what it gave up, lazily and again and again, until it is answered; such words may be late without bound. Member 0 serves all the time;
member 1 is away now and then, stale when it returns, and recovers object by object while changes go on. A change names its generation.

Checked: what was acknowledged under the present placing is at every member that counts as consistent, and the copies are equal whenever
nothing is under way. --break removes one rule:
  generation  whatever generation a word of deletion names, the object goes
  log         deletions are not in the log of what changed while the other one was away
  session     what an earlier recovery sent is taken when it arrives late
  older       a change of an older placing is carried out
  lock        recovery of an object does not keep changes of it waiting
  answered    an entry leaves the log when it is sent, not when the recovering member has it
"""
import collections
import sys

import explore

RULES = {"generation": "", "log": "", "session": "", "older": "", "lock": "", "answered": ""}
C, T, R = "C", "T", "R"  # what member 1 is: consistent, stale, recovering
World = collections.namedtuple("World", "own mirror state placed given asks late order message stale log acked writes placings absences")
# own, mirror: (generation, write) of the object at 0 and at 1, (0, 0) when there is none; placed: the generation of now, 0 when the file lies
# elsewhere; given: generations given; asks: of which deletion is asked; late: changes under way (generation, write); order: None or (generation,
# write or None for a deletion), applied at 0; message: None or the object as recovery sends it; stale: the same of an
# earlier recovery; log: was the object changed while 1 was away; acked: (generation, write) acknowledged last.


def changed(here, generation, write, opt):
    """The object at a member after a change."""
    if write is None:
        return (0, 0) if here[0] <= generation or opt.broken == "generation" else here
    return (generation, write) if here[0] <= generation or opt.broken == "older" else here


def violation(w):
    present = w.placed and w.acked[0] == w.placed
    if present and w.order is None and w.own != w.acked:
        return "what was acknowledged is gone"
    if w.state == C and w.order is None:
        if present and w.mirror != w.own:
            return "a consistent member does not have what was acknowledged"
        if w.mirror != w.own:
            return "the copies differ, and nothing is under way"
    return None


def steps(w, opt):
    # --- the manager, and a client ---
    if not w.placed and w.placings < opt.placings:
        yield f"the file is placed here, generation {w.given + 1}", w._replace(placed=w.given + 1, given=w.given + 1, placings=w.placings + 1, acked=(0, 0))
    if w.placed:
        yield f"generation {w.placed} is given up", w._replace(placed=0, asks=w.asks | {w.placed})
    if w.placed and w.writes < opt.writes:
        yield f"write {w.writes + 1} is sent", w._replace(writes=w.writes + 1, late=w.late | {(w.placed, w.writes + 1)})
    # --- member 0 orders, one change of the object at a time ---
    free = w.order is None and (w.message is None or opt.broken == "lock")
    for generation, write in [(g, None) for g in w.asks] + list(w.late) if free else []:
        after = w._replace(late=w.late - {(generation, write)})
        what = f"write {write} of generation {generation}" if write else f"the deletion of generation {generation}"
        if write and w.own[0] > generation and opt.broken != "older":
            yield f"{what} is refused", after
            continue
        after = after._replace(own=changed(w.own, generation, write, opt), order=(generation, write))
        yield f"0 orders {what}", after
    if w.order:
        generation, write = w.order
        done = w._replace(order=None)
        if write and generation == w.placed:
            done = done._replace(acked=(generation, write))
        if w.state == T:
            yield "it is done here alone", done._replace(log=w.log or opt.broken != "log" or write is not None)
        else:
            yield "both have done it", done._replace(mirror=changed(w.mirror, generation, write, opt))
    # --- member 1 goes, returns, recovers ---
    if w.state != T and w.absences < opt.absences:
        yield "1 goes", w._replace(state=T, absences=w.absences + 1, message=None, stale=w.message or w.stale)
    if w.state == T and w.order is None:
        yield "1 recovers", w._replace(state=R)
    if w.state == R and w.log and w.message is None and (w.order is None or opt.broken == "lock"):
        yield "recovery sends the object", w._replace(message=w.own, log=opt.broken != "answered")
    if w.message:
        yield "recovery of the object arrives", w._replace(mirror=w.message, message=None, log=False)
    if w.stale:
        yield "what an earlier recovery sent arrives", w._replace(mirror=w.stale if opt.broken == "session" else w.mirror, stale=None)
    if w.state == R and not w.log and w.message is None and w.order is None:
        yield "1 is consistent", w._replace(state=C)


def check(title, opt):
    start = World((0, 0), (0, 0), C, 0, 0, frozenset(), frozenset(), None, None, None, False, (0, 0), 0, 0, 0)
    return explore.report(title, start, steps, violation, opt)


if __name__ == "__main__":
    sys.exit(explore.main(__doc__, check, RULES, [""], ["writes=3 placings=3"], writes=2, placings=2, absences=2))
