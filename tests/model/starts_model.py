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
copy nobody is refused.

The manager's database may be *put back* to a state that was saved before. It then knows older marks than its servers have. So each side keeps
the *count* of its confirmed mark, how many were confirmed up to it; the server says its own with each request. Marks that are not known, with
a greater count than the manager's, were confirmed by a later state of its database: it takes over count and confirmed mark. With a smaller or
an equal one they are old. Checked: nobody is taken over before anything was put back, nobody without a copy is refused, and from the time
that it was put back on not both are let in, but for one that is taken over after the other one. What cannot be promised: behind a put-back
nobody knows who was let in before it, so an old copy that comes first is let in; the other one still takes over as long as it has the greater
count, and is the one that is refused when the copy has run ahead. Nor is anything promised of a state saved on a line of history that an
older one, put back meanwhile, has cut off: both lines give one count to different marks when a start died between the two steps.
--break removes one rule:
  kept       the disk keeps the confirmed mark beside the pending one
  both       the manager lets in who has its confirmed mark as the pending one
  drawn      each start draws a mark of its own, and does not use the pending one again
  tentative  a mark is confirmed only if it was the last to be proposed
  answered   a server serves when the second answer is here, not the first
  ahead      the manager takes over who has a greater count
  greater    ... greater, not just any other marks
  counted    a server that learns that its pending mark was confirmed counts it
  itself     the manager counts a mark once, though a server that is let in confirms it again
"""
import collections
import sys

import explore

RULES = {"kept": "", "both": "", "drawn": "", "tentative": "", "answered": "", "ahead": "", "greater": "", "counted": "", "itself": "backs=2 starts=2"}
NONE, ASKS, CONFIRMS, SERVES, REFUSED = "none", "asks", "confirms", "serves", "refused"
Disk = collections.namedtuple("Disk", "confirmed pending count")
Process = collections.namedtuple("Process", "state mark")
Request = collections.namedtuple("Request", "place kind mark confirmed pending count")  # kind: P or C; of C, confirmed: x
Known = collections.namedtuple("Known", "confirmed tentative count")  # what the manager's database has
World = collections.namedtuple("World", "disks processes known drawn starts mail served saved backs wrong")
# disks, processes: of the original and of the copy, whose disk is None until it is made; drawn: marks so far; served: since the copy was made,
# or the database was put back; saved: a state of the database; backs: times that it was put back; wrong: taken over before that.

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
    if w.wrong:
        return "somebody is taken over, and nothing was put back"
    if w.disks[1] is None and w.processes[0].state == REFUSED:
        return "a server is refused, and there is no copy"
    return None


def taken_over(w, place, known):
    return w._replace(known=known, served=replaced(w.served, 1 - place, False), wrong=w.backs == 0)


def is_ahead(w, r, opt):
    return opt.broken != "ahead" and (r.count > w.known.count or opt.broken == "greater")


def on_propose(w, r, mine, opt):
    """The manager is asked; its answer arrives, or does not."""
    if w.known.confirmed not in ((r.confirmed,) if opt.broken == "both" else (r.confirmed, r.pending)):
        if not is_ahead(w, r, opt):
            return [at(w, r.place, Process(REFUSED, r.mark))] if mine else []
        w = taken_over(w, r.place, Known(r.confirmed, 0, r.count))
    x = w.known.confirmed
    answered = w._replace(known=w.known._replace(tentative=r.mark))
    if not mine:
        return [answered]
    count = r.count + (x != r.confirmed and opt.broken != "counted")
    disk = Disk(r.mark if opt.broken == "kept" else x, r.mark, count)
    then = at(answered, r.place, Process(CONFIRMS, r.mark), disk)
    then = then._replace(mail=then.mail | {Request(r.place, "C", r.mark, x, 0, count)})
    if opt.broken == "answered":
        then = let_in(then, r.place, r.mark)
    return [answered, then]


def on_confirm(w, r, mine, opt):
    told = r.count + (r.confirmed != r.mark)
    count = r.count + 1 if opt.broken == "itself" else told
    if w.known.confirmed == r.mark:
        answered = w
    elif w.known.tentative == r.mark or opt.broken == "tentative":
        answered = w._replace(known=Known(r.mark, 0 if w.known.tentative == r.mark else w.known.tentative, count))
    elif w.known.confirmed == r.confirmed or (is_ahead(w, r, opt) and r.confirmed != r.mark):
        return [ask(w, r.place, r.mark)] if mine else []
    elif is_ahead(w, r, opt):
        answered = taken_over(w, r.place, Known(r.mark, 0, count))
    else:
        return [at(w, r.place, Process(REFUSED, r.mark))] if mine else []
    return [answered, let_in(answered, r.place, r.mark), let_in(answered, r.place, r.mark, Disk(r.mark, 0, told))] if mine else [answered]


def request(w, place):
    """What a process says when it has a new connection."""
    disk, process = w.disks[place], w.processes[place]
    if process.state == ASKS:
        return {Request(place, "P", process.mark, disk.confirmed, disk.pending, disk.count)}
    return {Request(place, "C", process.mark, disk.confirmed, 0, disk.count)} if process.state in (CONFIRMS, SERVES) else set()


def ask(w, place, mark):
    w = at(w, place, Process(ASKS, mark))
    return w._replace(mail=w.mail | request(w, place))


def put_back(w):
    """It is stopped for that: what was under way to it is gone, and who runs comes again."""
    return w._replace(known=w.saved, backs=w.backs + 1, served=(False, False), mail=frozenset(request(w, 0) | (request(w, 1) if w.disks[1] else set())))


def steps(w, opt):
    if w.disks[1] is None and w.processes[0].state == NONE:
        yield "the directory is copied", w._replace(disks=(w.disks[0], w.disks[0]))
    if w.backs < opt.backs and w.saved != w.known:
        yield "the database is saved", w._replace(saved=w.known)
        yield f"the database is put back: {w.saved}", put_back(w)
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
        mine = process.mark == r.mark and process.state in ((ASKS,) if r.kind == "P" else (CONFIRMS, SERVES))
        arrived = w._replace(mail=w.mail - {r})
        what = f"{'PROPOSE' if r.kind == 'P' else 'CONFIRM'} {r.mark} of {NAMES[r.place]}"
        yield f"{what} is lost", arrived
        for after in (on_propose if r.kind == "P" else on_confirm)(arrived, r, mine, opt):
            yield f"{what} arrives: {after.processes[r.place].state}, {after.known}", after


def check(title, opt):
    start = World((Disk(1, 0, 1), None), (IDLE, IDLE), Known(1, 0, 1), 1, 0, frozenset(), (False, False), Known(1, 0, 1), 0, False)
    return explore.report(title, start, steps, violation, opt)


if __name__ == "__main__":
    sys.exit(explore.main(__doc__, check, RULES, [""], ["starts=4"], starts=3, backs=1))
