#!/usr/bin/python3
"""starts_model.py - the starts of a server on its data directory, and on a copy of it that was made while nothing ran.

Once either of the two has been let in after the copy was made, the other one must never be: it is old. And a server of which there is no
copy must be let in again whatever it died of, between which two lines. The number of starts that a directory was let in with is not enough:
two that are asked for at the same moment have the same one. So each start draws a number that nobody else has, its *mark*, and is let in
in two steps:

  server: disk (confirmed, pending)                       manager: confirmed, tentative, durable before it answers
    draws q      PROPOSE confirmed, pending, q   ------>  its confirmed one is neither: refused for good
                                                 <------  tentative = q; x, the one of the two that it was
    disk = (x, q)               CONFIRM q, x     ------>  tentative or confirmed is q: confirmed = q
                                                          confirmed is x: begin again; else refused for good
    serves                                       <------  yes

Processes end at any moment, answers are lost, and requests of processes that have ended arrive late. Checked: not both are let in; without a
copy nobody is refused. --break removes one rule:
  kept       the disk keeps the confirmed mark beside the pending one
  both       the manager lets in who has its confirmed mark as the pending one
  drawn      each start draws a mark of its own, and does not use the pending one again
  tentative  a mark is confirmed only if it was the last to be proposed
  answered   a server serves when the second answer is here, not the first
"""
import collections
import sys

import explore

RULES = {"kept": "", "both": "", "drawn": "", "tentative": "", "answered": ""}
NONE, ASKS, CONFIRMS, SERVES, REFUSED = "none", "asks", "confirms", "serves", "refused"
Disk = collections.namedtuple("Disk", "confirmed pending")
Process = collections.namedtuple("Process", "state mark")
Request = collections.namedtuple("Request", "place kind mark confirmed pending")  # kind: P or C; of C, confirmed: x
World = collections.namedtuple("World", "disks processes confirmed tentative drawn starts mail served")
# disks, processes: of the original and of the copy, whose disk is None until it is made; drawn: marks so far; served: since the copy was made.

IDLE = Process(NONE, 0)
NAMES = ("the original", "the copy")


def replaced(pair, place, value):
    return (value, pair[1]) if place == 0 else (pair[0], value)


def at(w, place, process, disk=None):
    w = w._replace(processes=replaced(w.processes, place, process))
    return w._replace(disks=replaced(w.disks, place, disk)) if disk else w


def let_in(w, place, mark, disk=None):
    w = at(w, place, Process(SERVES, mark), disk)
    return w._replace(served=replaced(w.served, place, True)) if w.disks[1] else w


def violation(w):
    if w.served == (True, True):
        return "both the original and its copy were let in"
    if w.disks[1] is None and w.processes[0].state == REFUSED:
        return "a server is refused, and there is no copy"
    return None


def on_propose(w, r, mine, opt):
    """The manager is asked; its answer arrives, or does not."""
    known = (r.confirmed,) if opt.broken == "both" else (r.confirmed, r.pending)
    if w.confirmed not in known:
        return [at(w, r.place, Process(REFUSED, r.mark))] if mine else []
    answered = w._replace(tentative=r.mark)
    if not mine:
        return [answered]
    disk = Disk(r.mark if opt.broken == "kept" else w.confirmed, r.mark)
    then = at(answered, r.place, Process(CONFIRMS, r.mark), disk)
    then = then._replace(mail=then.mail | {Request(r.place, "C", r.mark, w.confirmed, 0)})
    if opt.broken == "answered":
        then = let_in(then, r.place, r.mark)
    return [answered, then]


def on_confirm(w, r, mine, opt):
    yes = w.tentative == r.mark or w.confirmed == r.mark or opt.broken == "tentative"
    if yes:
        answered = w._replace(confirmed=r.mark, tentative=0 if w.tentative == r.mark else w.tentative)
        return [answered, let_in(answered, r.place, r.mark), let_in(answered, r.place, r.mark, Disk(r.mark, 0))] if mine else [answered]
    if not mine:
        return []
    if w.confirmed == r.confirmed:
        return [ask(w, r.place, r.mark)]
    return [at(w, r.place, Process(REFUSED, r.mark))]


def ask(w, place, mark):
    disk = w.disks[place]
    w = at(w, place, Process(ASKS, mark))
    return w._replace(mail=w.mail | {Request(place, "P", mark, disk.confirmed, disk.pending)})


def steps(w, opt):
    if w.disks[1] is None and w.processes[0].state == NONE:
        yield "the directory is copied", w._replace(disks=(w.disks[0], w.disks[0]))
    for place in (0, 1):
        disk, process = w.disks[place], w.processes[place]
        if disk and process.state != NONE:
            yield f"{NAMES[place]} ends", at(w, place, IDLE)
        if disk and process.state == NONE and w.starts < opt.starts:
            again = disk.pending if opt.broken == "drawn" else 0
            mark = again or w.drawn + 1
            yield f"{NAMES[place]} starts with mark {mark}", ask(w._replace(drawn=max(w.drawn, mark), starts=w.starts + 1), place, mark)
    for r in w.mail:
        process = w.processes[r.place]
        mine = process == Process(ASKS if r.kind == "P" else CONFIRMS, r.mark) or (opt.broken == "answered" and process == Process(SERVES, r.mark) and r.kind == "C")
        arrived = w._replace(mail=w.mail - {r})
        what = f"{'PROPOSE' if r.kind == 'P' else 'CONFIRM'} {r.mark} of {NAMES[r.place]}"
        yield f"{what} is lost", arrived
        for after in (on_propose if r.kind == "P" else on_confirm)(arrived, r, mine, opt):
            yield f"{what} arrives: {after.processes[r.place].state}, confirmed {after.confirmed}", after


def check(title, opt):
    start = World((Disk(1, 0), None), (IDLE, IDLE), 1, 0, 1, 0, frozenset(), (False, False))
    return explore.report(title, start, steps, violation, opt)


if __name__ == "__main__":
    sys.exit(explore.main(__doc__, check, RULES, [""], ["starts=4"], starts=3))
