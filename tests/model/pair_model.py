#!/usr/bin/python3
"""pair_model.py - explores every interleaving of one replicated pair.

A small explicit-state model of docs/replication.md: two members (0 primary, 1 secondary), the manager as third voter, one region
whose content is a version number. The vote for an epoch is a consensus object (single-decree Paxos in the real system): the first
candidate that reaches a majority wins it, later ones learn who won. A mirror lease is a flag that may run out at any moment; time-outs are
therefore free choices, and what holds here does not depend on timing.

Checked in every state: two members never both act alone; a read never returns less than what was fsynced; and never less than an
acknowledged write or an earlier read, except after a second failure: the machine that held the only complete copy lost its memory before it had flushed.
--break removes one rule, to see that the model finds what the rule is for:
  lease      a consistent member reads without a mirror lease        wait       a winner acts before its mirror's lease is over
  persist    the winner's vote is not a consensus (both may win)     rejoin     a restarted member gets a lease before it is vouched for
  order      recovery makes the recovering member consistent first
  stand      a member that lost unsynced data may stand              intent     write intent is cleared by a member not vouched for
  flush      a member is consistent again before what it was given is on its disk
"""
import collections
import sys

import explore
from explore import put

RULES = {**dict.fromkeys("lease wait persist rejoin order stand intent".split(), ""), "flush": "crashes=2"}
C, A, T, R = "C", "A", "T", "R"  # consistent, standalone, stale, recovering
Member = collections.namedtuple("Member", "st ep ver synced intent up joined same_boot lease cand won")
# joined: the mirror has vouched since the last start; lease: a lease granted by the mirror is held; cand: is a candidate;
# won: has learnt that it won, and waits for the mirror's lease; intent: may have acknowledged bytes that are not on disk.
World = collections.namedtuple("World", "m link lm decided acked seen durable flight crashes cuts writes")
# flight: None or (coordinator, version, applied_by_mirror, with_mirror); lm: link of each member to the manager.


def violation(w):
    if all(x.up and x.st == A for x in w.m):
        return "both members are standalone"
    return "a read went back in time" if w.seen < 0 else None


def majority(w, i):
    return (w.link and w.m[1 - i].up) or w.lm[i]


def may_read(w, i, opt):
    x = w.m[i]
    if not x.up or w.flight is not None and w.m[w.flight[0]].up:
        return False  # range locks and manager leases keep reads away from a write in flight
    if x.st == A:
        return True
    return x.st == C and (x.lease or opt.broken == "lease") and not x.won


def steps(w, opt):
    decided = dict(w.decided)
    for i in (0, 1):
        x, y = w.m[i], w.m[1 - i]
        together = w.link and x.up and y.up
        if may_read(w, i, opt):
            yield f"{i} reads {x.ver}", w._replace(seen=-1 if x.ver < max(w.seen, w.acked, w.durable) else x.ver)
        # --- crashes: of the process (page cache stays) or of the machine (unsynced bytes are gone) ---
        if x.up and w.crashes < opt.crashes:
            dead = dict(up=False, joined=False, lease=False, cand=False, won=False)
            flight = None if w.flight and w.flight[0] == i else w.flight
            base = w._replace(crashes=w.crashes + 1, flight=flight)
            yield f"process {i} dies", put(base, i, **dead)
            if x.st == A or not y.up or not y.joined:  # a second failure: what was acknowledged but never flushed may be gone
                lost = flight and flight[1] > x.synced and flight[0] != i
                base = base._replace(acked=min(w.acked, x.synced), seen=min(w.seen, x.synced), flight=flight[:2] + (False, flight[3]) if lost else flight)
            yield f"machine {i} dies", put(base, i, ver=x.synced, same_boot=False, **dead)
        if not x.up:
            yield f"{i} starts", put(w, i, up=True)
        if x.up and x.synced != x.ver:
            yield f"{i} syncs", put(w, i, synced=x.ver)
        settled = x.joined and y.joined and x.st == y.st == C or opt.broken == "intent"
        if together and x.intent and settled and x.synced == x.ver and y.synced == y.ver and w.flight is None:
            yield f"{i} clears write intent", put(w, i, intent=False)
        if x.up and w.flight is None and w.durable < w.acked and x.synced == x.ver >= w.acked and \
                (x.st == A and y.st != R or x.st == C and x.joined and together and y.st == C and y.ep == x.ep and y.joined and y.synced == y.ver):
            yield "fsync returns", w._replace(durable=w.acked)
        # --- mirror leases: i holds one granted by the mirror ---
        vouched = x.joined and y.joined or opt.broken == "rejoin"
        if together and not x.lease and x.st == y.st == C and x.ep == y.ep and vouched and not (y.cand or y.won):
            yield f"{i} gets a lease", put(w, i, lease=True)
        if x.lease:
            yield f"lease of {i} runs out", put(w, i, lease=False)
        # --- write: coordinator applies, mirror applies, acknowledge ---
        first_alive = i == 0 or not (w.link and y.up) or y.st != C or x.st == A
        if x.up and w.flight is None and w.writes < opt.writes and (x.joined or x.st == A) and x.st in (C, A) and not x.won and first_alive:
            v = w.writes + 1
            yield f"{i} starts write {v}", put(w, i, ver=v, intent=True)._replace(flight=(i, v, False, x.st == C or y.st == R), writes=v)
        if w.flight and w.flight[0] == i:
            _, v, mirrored, with_mirror = w.flight
            accepts = y.st == R or y.st == C and y.ep == x.ep and y.joined and not (y.cand or y.won)
            if with_mirror and not mirrored and together and accepts:
                yield f"{1 - i} applies write {v}", put(w, 1 - i, ver=v, intent=True)._replace(flight=(i, v, True, True))
            if mirrored or x.st == A and (not with_mirror or y.st == T):
                yield f"write {v} acknowledged", w._replace(flight=None, acked=v)
            if x.st == A and y.st == R and not mirrored:
                yield f"{1 - i} is dropped from recovery", put(w, 1 - i, st=T) if y.up else w
            if x.st == T:
                yield f"write {v} fails", w._replace(flight=None)
        # --- vote ---
        complete = x.same_boot or not x.intent or opt.broken == "stand"
        if x.up and x.st == C and not x.won and not x.cand and x.ep < opt.epochs and (x.joined or complete):
            yield f"{i} becomes a candidate", put(w, i, cand=True)
        if x.up and x.cand and x.st == C and majority(w, i):
            e = x.ep + 1
            winner = decided.get(e)
            if winner is None or opt.broken == "persist":
                yield f"{i} wins epoch {e}", put(w, i, won=True, cand=False)._replace(decided=tuple(sorted({**decided, e: i}.items())))
            elif winner == i:
                yield f"{i} learns that it won {e}", put(w, i, won=True, cand=False)
        if x.up and x.st == C and decided.get(x.ep + 1) == 1 - i and majority(w, i):
            yield f"{i} learns that it is stale", put(w, i, st=T, cand=False, won=False, lease=False)
        if x.up and x.won and (not y.lease or opt.broken == "wait"):
            yield f"{i} acts standalone", put(w, i, st=A, ep=x.ep + 1, won=False, lease=False, joined=True, same_boot=True)
        if x.up and x.cand:
            yield f"{i} gives up standing", put(w, i, cand=False)
        # --- coming back: the survivor vouches, and its copy of the write-intent regions wins ---
        own = w.flight is None or w.flight[0] == 1 - i  # What is under way at who vouches is given, too.
        if together and not x.joined and x.st == y.st == C and x.ep == y.ep and y.joined and not (y.cand or y.won or x.won) and own:
            after = put(w, i, joined=True, same_boot=True, ver=y.ver, synced=x.synced if opt.broken == "flush" else y.ver, cand=False)
            yield f"{1 - i} vouches for {i}", after._replace(flight=w.flight and w.flight[:2] + (True, w.flight[3]))
        if i == 0 and together and not x.joined and not y.joined and x.st == y.st == C and x.ep == y.ep and not (x.won or y.won):
            if complete and (y.same_boot or not y.intent) or x.same_boot != y.same_boot:
                keep = x.ver if complete else y.ver
                both = dict(joined=True, same_boot=True, ver=keep, synced=keep, cand=False)
                yield "both restarted: the complete copy wins", put(put(w, 0, **both), 1, **both)
        # --- recovery: i is standalone, the other is stale ---
        if together and x.st == A and y.st == T and w.flight is None:
            yield f"{1 - i} recovers from {i}", put(w, 1 - i, st=R, ver=x.ver, intent=True)
        flushed = y.synced == y.ver or opt.broken == "flush"
        if together and x.st == A and y.st == R and y.ver == x.ver and flushed and w.flight is None:
            if opt.broken == "order":
                yield f"{1 - i} turns consistent first", put(w, 1 - i, st=C, ep=x.ep + 1, joined=True, same_boot=True, cand=False)
            else:
                yield f"{i} turns consistent", put(w, i, st=C, ep=x.ep + 1, joined=True, same_boot=True)
        if together and x.st == C and y.st == R and x.joined and w.flight is None and y.ver == x.ver:
            yield f"{1 - i} follows", put(w, 1 - i, st=C, ep=x.ep, joined=True, same_boot=True, cand=False)
        if opt.broken == "order" and together and x.st == A and y.st == C and y.ep == x.ep + 1:
            yield f"{i} follows", put(w, i, st=C, ep=y.ep, joined=True, same_boot=True)
        if w.cuts < opt.cuts and w.lm[i]:
            lm = tuple(False if k == i else w.lm[k] for k in (0, 1))
            yield f"{i} loses the manager", w._replace(lm=lm, cuts=w.cuts + 1)
        if not w.lm[i]:
            yield f"{i} sees the manager again", w._replace(lm=tuple(True if k == i else w.lm[k] for k in (0, 1)))
    if w.link and w.cuts < opt.cuts:
        yield "members cannot see each other", w._replace(link=False, cuts=w.cuts + 1)
    if not w.link:
        yield "members see each other again", w._replace(link=True)


def check(title, opt):
    member = Member(C, 1, 0, 0, False, True, True, True, False, False, False)
    return explore.report(title, World((member, member), True, (True, True), (), 0, 0, 0, None, 0, 0, 0), steps, violation, opt)


if __name__ == "__main__":
    sys.exit(explore.main(__doc__, check, RULES, [""], ["writes=2 crashes=2 cuts=2 epochs=3"], writes=1, crashes=1, cuts=1, epochs=2))
