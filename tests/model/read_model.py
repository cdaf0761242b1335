#!/usr/bin/python3
"""read_model.py - what clients see of one pair: leases, retries, fail-over, recovery.

Client a holds a W lease and sends one change (operation 1), perhaps to both members. Its lease is given back or runs out; then client b
(or several that share R leases) reads at either member, and writes --writes operations of its own. Requests and forwards are under way as
long as they like, members are frozen or slow by simply taking no step, processes die (memory gone, bytes kept) and start again, each member
may go standalone and the other recovers. With --losses machines lose power, and with it what was not synced, of bytes and of the memory of
operations (there is no a then, and b only writes and reads). The region's content is the number of the operation that wrote it last.

Checked: while b holds its lease, nothing but its own operations changes what it reads (so what it caches stays true, and once new is never
old again), and an answered change of a is there; never two standalone members; copies that no write-intent set suspects are equal.
--break removes one rule:
  settle        holders of an unsettled lease read at the secondary as well    inflight     reads at the primary do not wait for a change under way
  notafter      a change that comes after its not_after is ordered             unsure       a lease is given back, and given away, while a change of
  beside        a client reads at the secondary beside a write of its own                   which its holder is unsure may still be ordered
  replymemory   the memory of operations is not handed over                    merge        it is added to what the other remembers, not put in its place
  ownmemory     it is lost when a process dies that then stands unvouched      lease        the secondary serves reads without a mirror lease
  bothintents   recovery ignores the returning member's write-intent set       survivorintents  recovery ignores the survivor's
  oldstart      forwards of an earlier start of the primary are still taken    again        after vouching, what is under way is not forwarded again
and with loss of power
  memorysync    the memory of operations reaches the disk later than the bytes of which it speaks
  sentbefore    a change is taken that its client sent under an older verifier: the memory of it may be lost together with its bytes, and what came
                after it would be undone
"""
import collections
import sys

import explore
from explore import put

RULES = {"settle": "writes=0", "inflight": "writes=0", "notafter": "writes=0", "unsure": "writes=0", "beside": "", "replymemory": "crashes=0",
         "ownmemory": "", "merge": "writes=0", "bothintents": "writes=0", "survivorintents": "writes=0", "oldstart": "writes=0",
         "again": "writes=0", "lease": "writes=0", "memorysync": "writes=2 crashes=0 losses=1", "sentbefore": "writes=2 crashes=0 losses=1"}
C, A, T = "C", "A", "T"  # consistent, standalone, stale
Member = collections.namedtuple("Member", "st ep ver known intent dirty up joined start peer lease won order sver sknown whole vf")
# ver: the operation whose bytes the region holds; known: operations remembered with their answers; start: start counter; peer: the start of the
# mirror that was agreed on last; lease: holds a mirror lease; won: won the vote and waits for its mirror's lease; order: None or (operation,
# applied here, applied by the mirror); sver, sknown: what of ver and known is on its disk; whole: cannot have lost anything; vf: the verifier of
# the pair as it knows it.
World = collections.namedtuple("World", "m sent fwd decided a late b expect pending done crashes losses bvf")
# sent: requests under way (operation, member, verifier); bvf: the verifier that b was told last; fwd: forwards under way (from, operation, epoch,
# start); a: h(olds the lease), w(aits for an answer), o(k), g(ave back); late: a's not_after is over; b: None, u(nsettled), s(ettled); expect: what
# b must read, None while open.


def violation(w):
    if all(x.up and x.st == A for x in w.m):
        return "both members are standalone"
    p, s = w.m
    if w.expect == -1:
        return "b read what nobody wrote under its lease, or an older value than before"
    quiet = p.st == s.st == C and p.ep == s.ep and p.joined and s.joined and not p.order and not (p.intent or s.intent)
    if quiet and not (p.won or s.won) and p.ver != s.ver:
        return "the copies differ and no write-intent set says so"
    return None


def agree(w):
    return put(put(w, 0, peer=w.m[1].start), 1, peer=w.m[0].start)


def acts(w, i, opt):
    """Does i order changes and serve reads as the primary?"""
    x = w.m[i]
    return x.up and (x.st == A or x.st == C and i == 0 and x.joined and not x.won)


def answer(w, op, vf):
    """The client learns that its operation is done (if it still waits for it)."""
    if op == 1:
        return w._replace(a="o") if w.a == "w" else w
    return w._replace(pending=0, expect=op, done=op, bvf=vf) if w.pending == op else w


def refuse(w, op, vf):
    """... or that it may have taken effect or not, and that what it wrote before may be gone (EIO)."""
    if op == 1:
        return w._replace(a="g") if w.a == "w" else w
    return w._replace(pending=0, expect=None, done=op, bvf=vf) if w.pending == op else w


def loses_power(w, i):
    x, y = w.m[i], w.m[1 - i]
    after = put(w, i, up=False, joined=False, lease=False, won=False, order=None, ver=x.sver, known=x.sknown, whole=x.whole and not x.intent)
    if not (x.st == y.st == C and y.ep == x.ep and y.whole) and x.st != T:  # The only one that had everything.
        after = after._replace(expect=None, a="g" if w.a in "oO" else w.a)
    return after._replace(losses=w.losses + 1)


def read(w, ver, vf):
    if vf != w.bvf:  # What it wrote before may be gone; what it waits for, it gives up.
        w = (refuse(w, w.pending, vf) if w.pending else w)._replace(expect=None, bvf=vf)
    if w.pending and ver == w.pending:
        return w._replace(expect=ver)
    if w.expect is None:
        return w._replace(expect=-1 if w.a in ("o", "O") and ver != 1 else ver)
    return w if ver == w.expect else w._replace(expect=-1)


def given(w, i, opt):
    """What a member is given is flushed before it counts."""
    return put(w, i, sver=w.m[i].ver, sknown=w.m[i].known, whole=True) if opt.losses else w


def clients(w, opt):
    # --- a: one change under a W lease, sent to either member, perhaps to both ---
    if w.a == "h" and not w.late:
        yield "a sends 1 to 0", w._replace(a="w", sent=w.sent | {(1, 0, 1)})
    if w.a == "w" and not w.late and (1, 1, 1) not in w.sent:
        yield "a sends 1 to 1 as well", w._replace(sent=w.sent | {(1, 1, 1)})
    if not w.late and (w.a in "hwo" or w.sent):
        yield "not_after of a passes", w._replace(late=True)
    if w.b is None:
        if w.a in "ho":
            settled = {"h": "g", "o": "O"}[w.a]
            yield "a gives its lease back, sure of everything", w._replace(a=settled, b="s")
        if w.a in "how" and w.late:
            yield "the lease of a has run out: b gets one", w._replace(a={"o": "O"}.get(w.a, "g"), b="u")
        if w.a == "w" and not w.late and opt.broken == "unsure":
            yield "a gives its lease back, unsure of 1: b gets one", w._replace(a="g", b="u")
        return
    # --- b: reads, and writes one operation after another ---
    for i in (0, 1):
        x = w.m[i]
        serves = x.up and (x.st == A or x.st == C and x.joined and not x.won and (x.lease or opt.broken == "lease"))
        acting = serves and acts(w, i, opt)
        if acting and (x.order is None or opt.broken == "inflight") or serves and not acting and w.b == "s" and (not w.pending or opt.broken == "beside") or \
                serves and not acting and opt.broken == "settle" and not w.pending:
            yield f"b reads {x.ver} at {i}", read(w, x.ver, x.vf)
        if acting and x.order is None and w.b == "u":
            yield f"{i} answers SETTLE", w._replace(b="s")
        if w.pending and (w.pending, i, w.bvf) not in w.sent and i == 1:
            yield f"b sends {w.pending} to {i} as well", w._replace(sent=w.sent | {(w.pending, i, w.bvf)})
    if not w.pending and max(w.done, 1) <= opt.writes:
        op = max(w.done, 1) + 1
        yield f"b sends {op} to 0", w._replace(pending=op, sent=w.sent | {(op, 0, w.bvf)})


def steps(w, opt):
    yield from clients(w, opt)
    decided = dict(w.decided)
    for op, i, vf in w.sent:
        x = w.m[i]
        rest = w._replace(sent=w.sent - {(op, i, vf)})
        if not acts(w, i, opt) or x.order is not None:
            continue
        if vf > x.vf:
            yield f"{i} is behind and passes {op} over", rest
        elif vf < x.vf and opt.broken != "sentbefore":
            yield f"{i} refuses {op}, sent before a loss", refuse(rest, op, x.vf)
        elif op in x.known:
            yield f"{i} knows {op} and answers", answer(rest, op, x.vf)
        elif op == 1 and w.late and opt.broken != "notafter":
            yield f"{i} refuses {op}, too late", rest
        else:
            after = put(rest, i, order=(op, False, False), dirty=x.st == A)
            if x.st == C:
                after = after._replace(fwd=after.fwd | {(i, op, x.ep, x.start)})
            yield f"{i} orders {op}", after
    for src, op, ep, start in w.fwd:
        i = 1 - src
        x, y = w.m[i], w.m[src]
        rest = w._replace(fwd=w.fwd - {(src, op, ep, start)})
        current = start == x.peer or opt.broken == "oldstart"
        if x.up and x.st == C and x.joined and x.ep == ep and not x.won and current:
            after = put(rest, i, ver=op, known=x.known | {op}, intent=True)
            if y.order and y.order[0] == op and y.start == start:
                after = put(after, src, order=(op, y.order[1], True))
            yield f"{i} applies {op}", after
        elif x.up:
            yield f"{i} refuses {op}", rest
    for i in (0, 1):
        x, y = w.m[i], w.m[1 - i]
        together = x.up and y.up
        if x.up and x.order and not x.order[1]:
            op, _, mirrored = x.order
            yield f"{i} applies its {op}", put(w, i, ver=op, known=x.known | {op}, intent=True, order=(op, True, mirrored))
        if x.up and x.order and x.order[1] and (x.order[2] and x.st == C or x.st == A):
            yield f"{i} is done with {x.order[0]} and answers", answer(put(w, i, order=None), x.order[0], x.vf)
        # --- crashes of the process: the order table is gone, the bytes stay ---
        if x.up and w.crashes < opt.crashes:
            dead = put(w, i, up=False, joined=False, lease=False, won=False, order=None, known=frozenset() if opt.broken == "ownmemory" else x.known)
            yield f"process {i} dies", dead._replace(crashes=w.crashes + 1)
        if not x.up:
            after = put(w, i, up=True, start=x.start + 1)
            yield f"{i} starts", put(after, i, vf=1 + w.losses, whole=True) if x.st == A and not x.whole else after
        # --- loss of power ---
        if w.losses < opt.losses:
            yield f"machine {i} loses power", loses_power(w, i)
        if opt.losses and x.up and (x.sver, x.sknown) != (x.ver, x.known):
            yield f"{i} syncs", put(w, i, sver=x.ver, sknown=x.known)
            if opt.broken == "memorysync":
                yield f"{i} syncs its bytes alone", put(w, i, sver=x.ver)
            elif x.sknown != x.known:
                yield f"{i} syncs what it remembers", put(w, i, sknown=x.known)
        # --- mirror leases, vote ---
        if together and not x.lease and x.st == y.st == C and x.ep == y.ep and x.joined and y.joined and not y.won and not x.won:
            yield f"{i} gets a lease", put(w, i, lease=True)
        if x.lease:
            yield f"lease of {i} runs out", put(w, i, lease=False)
        if x.up and x.st == C and not x.won and x.ep < opt.epochs and decided.get(x.ep + 1, i) == i and (x.joined or x.whole):
            yield f"{i} wins epoch {x.ep + 1}", put(w, i, won=True)._replace(decided=tuple(sorted({**decided, x.ep + 1: i}.items())))
        if x.up and x.st == C and decided.get(x.ep + 1) == 1 - i:
            yield f"{i} learns that it is stale", put(w, i, st=T, won=False, lease=False, order=None)
        if x.up and x.won and not y.lease:
            yield f"{i} acts standalone", put(w, i, st=A, ep=x.ep + 1, won=False, lease=False, joined=True, dirty=x.order is not None)
        # --- coming back ---
        if together and not x.joined and x.st == y.st == C and x.ep == y.ep and y.joined and not (y.won or x.won):
            memory = frozenset() if opt.broken == "replymemory" else y.known | x.known if opt.broken == "merge" else y.known
            after = given(put(w, i, joined=True, ver=y.ver if x.intent or y.intent else x.ver, known=memory, vf=y.vf), i, opt)
            if y.order and opt.broken != "again":  # what is under way is sent again
                after = put(after, 1 - i, order=(y.order[0], y.order[1], False))._replace(fwd=after.fwd | {(1 - i, y.order[0], y.ep, y.start)})
            yield f"{1 - i} vouches for {i}", agree(after)
        if i == 0 and together and not x.joined and not y.joined and x.st == y.st == C and x.ep == y.ep and not (x.won or y.won):
            keep = y if y.whole and not x.whole else x
            both = dict(joined=True, ver=keep.ver, known=keep.known, vf=keep.vf if keep.whole else 1 + w.losses)
            yield "both restarted: the copy that lost nothing, or the primary's, wins", agree(given(given(put(put(w, 0, **both), 1, **both), 0, opt), 1, opt))
        if together and x.st == A and y.st == T and x.order is None:
            suspects = x.dirty or x.intent and opt.broken != "survivorintents" or y.intent and opt.broken != "bothintents"
            memory = frozenset() if opt.broken == "replymemory" else x.known | y.known if opt.broken == "merge" else x.known
            after = put(w, i, st=C, ep=x.ep + 1, dirty=False)
            other = dict(st=C, ep=x.ep + 1, joined=True, dirty=False, known=memory, ver=x.ver if suspects else y.ver, vf=x.vf)
            yield f"{1 - i} recovers from {i}", agree(given(put(after, 1 - i, **other), 1 - i, opt))
        flushed = (x.sver, y.sver) == (x.ver, y.ver) and (opt.broken == "memorysync" or (x.sknown, y.sknown) == (x.known, y.known)) or not opt.losses
        if together and x.intent and x.st == y.st == C and x.ep == y.ep and x.joined and y.joined and not x.order and not y.order and flushed:
            yield f"{i} clears write intent", put(w, i, intent=False)


def check(title, opt):
    none = frozenset()
    member = Member(C, 1, 0, none, False, False, True, True, 1, 1, True, False, None, 0, none, True, 1)
    start = World((member, member), none, none, (), "h", False, None, None, 0, 0, 0, 0, 1)
    if opt.losses:
        start = start._replace(a="g", late=True, b="s")
    return explore.report(title, start, steps, violation, opt)


if __name__ == "__main__":
    sys.exit(explore.main(__doc__, check, RULES, ["writes=0", "crashes=0", "crashes=0 losses=1"],
                          ["", "writes=0 crashes=2", "crashes=2", "writes=2", "writes=2 crashes=0 losses=1", "writes=2 losses=1", "crashes=0 losses=2"],
                          late=["ownmemory", "memorysync"], writes=1, crashes=1, losses=0, epochs=2))
