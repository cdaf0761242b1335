#!/usr/bin/python3
"""group_model.py - three copies: an in-sync set in place of a pair.

What pair_model.py does for two members, for three. A member holds (epoch, in-sync set); the first one of the set orders changes, and a change
is acknowledged when every member of the set has it. The vote for epoch + 1 decides one set: a smaller one, of members that lost nothing, or
the same with a member that has recovered. Who learns of it belongs to the new epoch, or is stale, and serves nothing until the new set agrees
on its bytes. A slow or cut-off member is one that takes no step; the others may vote without it at any time.

Who lost something stands all the same when all others of its set have said that they have lost their disks since they were voted in, for nobody
has more (left_over()). --start: 0, all are in sync; 1, one has left with a vote that has not begun; 2, one stands alone.

Not in it: voters that cannot be reached, and messages that are under way (the pair's models have these).

Checked: a read never returns less than what was fsynced, nor less than an acknowledged write or an earlier read while one member of the
set that serves has lost nothing; members of one set that all serve hold the same. --break removes one rule:
  lease      one mirror lease is enough to read; it takes one of every other member of the set
  wait       a new set serves before the leases are over which it gave to those who are not in it, or do not know of it yet
  vouchall   who restarted gets the bytes of one member, and the others are not asked, nor made equal to it: a change whose orderer died may
             be at one only
  agree      a member of a new set keeps its own bytes of the last change of the old one
  stand      a member that may have lost something belongs to a new set
  unbegun    a set of which nobody has served since its vote, and all have lost something, goes on with what it has; who left with that vote has
             everything, so it begins with his bytes
  since      the same when he left with an earlier vote: nobody has served since the votes in between either
  vote       the set grows by the word of its first member, without a vote
  newcomer   who has recovered stands, or gives others its bytes, before the larger set has agreed: the first one may not know of it yet, and
             acknowledge without it
  leaver     who does not order and is about to stop goes on reading; those who stay do not wait for its lease
  flush      who recovers or is vouched for counts before what it was given is on its disk
"""
import collections
import sys

import explore
from explore import put

RULES = {"lease": "crashes=1", "wait": "crashes=1", "vouchall": "crashes=1", "agree": "crashes=1", "stand": "losses=1", "unbegun": "losses=1",
         "since": "start=1 losses=2 epochs=3",
         "vote": "epochs=3", "newcomer": "epochs=3", "leaver": "stops=1",
         "flush": "crashes=1 losses=1"}
C, T, R = "C", "T", "R"  # of the in-sync set of its epoch, stale, recovering
N = 3
ALL = (1 << N) - 1
Member = collections.namedtuple("Member", "st ep set ver synced whole intent up joined leases begun leaves")
# set, leases: bits of members; whole: cannot have lost an acknowledged byte; intent: may hold acknowledged bytes that are not on its disk;
# joined: agreed with the set since its start and since the last vote; leases: who granted it a mirror lease that is not over; begun: the last epoch
# in which it was joined (on its disk; 0: none since it was brought up to date); leaves: a planned stop, of which it has told the others.
World = collections.namedtuple("World", "m decided acked seen durable flight crashes losses writes stops disks")
# decided: (epoch, set) of each vote; seen: -1 when a read went back; flight: None or (who orders it, its epoch, version, who has it).


def members_of(bits):
    return [i for i in range(N) if bits >> i & 1]


def first(bits):
    return members_of(bits)[0]


def serves(w, i, opt):
    x = w.m[i]
    others = x.set & ~(1 << i)
    held = x.leases & others
    may = not x.leaves or first(x.set) == i or opt.broken == "leaver"
    return x.up and x.st == C and x.joined and may and (held == others or opt.broken == "lease" and held != 0)


def violation(w):
    if w.seen < 0:
        return "a read went back in time"
    for i, x in enumerate(w.m):
        if x.up and x.st == C and x.joined and w.flight is None and x.ep + 1 not in dict(w.decided):
            for j in members_of(x.set):
                y = w.m[j]
                if y.up and y.st == C and y.joined and y.ep == x.ep and y.ver != x.ver:
                    return f"{i} and {j} are in sync and differ"
    return None


def complete(x, opt):
    return x.whole or not x.intent or opt.broken == "stand"


def in_step(x, y):
    return y.up and y.st == C and y.ep == x.ep and y.set == x.set


def lost(w):
    """After a machine died: what nobody holds any more who has lost nothing need not be there (fsync's verifier tells)."""
    newest = max(x.begun for x in w.m)
    kept = [x.ver for x in w.m if x.st != R and x.whole and x.ep >= newest]
    least = max(kept + [w.durable])
    return w._replace(acked=min(w.acked, least), seen=min(w.seen, least))


def failures(w, i, x, opt):
    dead = dict(up=False, joined=False, leases=0, leaves=False)
    if x.up and w.stops < opt.stops and not x.leaves:
        yield f"{i} is to stop", put(w, i, leaves=True)._replace(stops=w.stops + 1)
    if x.up and x.leaves:
        yield f"process {i} ends", put(w, i, **dead)
    if x.up and w.crashes < opt.crashes:
        yield f"process {i} dies", put(w, i, **dead)._replace(crashes=w.crashes + 1)
    if x.up and w.losses < opt.losses:
        gone = put(w, i, ver=x.synced, whole=x.whole and (x.synced == x.ver and not x.intent), **dead)
        yield f"machine {i} dies", lost(gone._replace(losses=w.losses + 1))
    if w.disks < opt.disks and (x.st != C or not x.begun):
        empty = dict(st=T, ep=0, ver=0, synced=0, whole=False, intent=True, begun=0)
        yield f"the disk of {i} is lost", lost(put(w, i, **empty, **dead)._replace(disks=w.disks + 1))
    if not x.up:
        yield f"{i} starts", put(w, i, up=True)
    if opt.losses and x.up and x.synced != x.ver:
        yield f"{i} syncs", put(w, i, synced=x.ver)


def changes(w, i, x, opt):
    acts = x.up and x.st == C and x.joined and first(x.set) == i
    others = [w.m[j] for j in members_of(x.set) if j != i]
    together = all(in_step(x, y) and y.joined for y in others)
    if acts and together and not w.flight and x.intent and all(y.synced == y.ver for y in others + [x]):
        after = w
        for j in members_of(x.set):
            after = put(after, j, intent=False, whole=True)
        yield f"the set of {i} clears its write intent", after
    if acts and together and not w.flight and w.durable < w.acked and all(y.synced == y.ver for y in others + [x]):
        yield "fsync returns", w._replace(durable=w.acked)
    if acts and not w.flight and w.writes < opt.writes:
        v = w.writes + 1
        yield f"{i} orders write {v}", put(w, i, ver=v, intent=True)._replace(flight=(i, x.ep, v, 1 << i), writes=v)
    if not w.flight or w.flight[0] != i or w.flight[1] != x.ep or not acts:
        return
    _, ep, v, have = w.flight
    for j, y in enumerate(w.m):
        takes = in_step(x, y) and y.joined or y.up and y.st == R and y.ep == x.ep
        if not have >> j & 1 and takes:
            yield f"{j} applies write {v}", put(w, j, ver=v, intent=True)._replace(flight=(i, ep, v, have | 1 << j))
    if have & x.set == x.set:
        after = w._replace(flight=None, acked=v)
        for j, y in enumerate(w.m):
            if y.st == R and y.ep == x.ep and not have >> j & 1:
                after = put(after, j, st=T)
        yield f"write {v} is acknowledged", after


def left_over(w, x, opt):
    """Who may stand although each has lost something: the others of the set have lost their disks since they were voted in."""
    rest = [j for j in members_of(x.set) if in_step(x, w.m[j])]
    bare = [j for j in members_of(x.set) if w.m[j].up and w.m[j].st == T and w.m[j].ep < x.ep and not complete(w.m[j], opt)]
    if not bare or len(rest) + len(bare) < len(members_of(x.set)):
        return []
    if any(w.m[j].joined or complete(w.m[j], opt) for j in rest) or not any(w.m[j].begun for j in rest):
        return []
    return rest


def left_with_all(w, x, y, opt):
    """Has y, which is outside of x's set that nobody has begun, all that was acknowledged? What was last acknowledged was in an epoch in which one
    of the set was joined, for it was in all sets since."""
    since = min([w.m[j].begun for j in members_of(x.set) if w.m[j].begun and opt.broken != "since"] + [x.ep - 1])
    return y.st == T and since <= y.ep < x.ep and complete(y, opt)


def votes(w, i, x, opt):
    decided = dict(w.decided)
    outcome = decided.get(x.ep + 1)
    if x.up and x.st == C and outcome is None and x.ep < opt.epochs:
        able = [j for j in members_of(x.set) if in_step(x, w.m[j]) and (w.m[j].joined or complete(w.m[j], opt))]
        for smaller in range(1, ALL + 1):
            if i in able and smaller >> i & 1 and smaller != x.set and all(j in able for j in members_of(smaller)):
                yield f"{i} wins epoch {x.ep + 1} for {members_of(smaller)}", w._replace(decided=tuple(sorted({**decided, x.ep + 1: smaller}.items())))
    left = left_over(w, x, opt)
    if x.up and x.st == C and outcome is None and x.ep < opt.epochs and i in left:
        yield f"{i} wins epoch {x.ep + 1} for what is left, {left}", w._replace(decided=tuple(sorted({**decided, x.ep + 1: sum(1 << j for j in left)}.items())))
    rest = x.set & ~sum(1 << j for j, y in enumerate(w.m) if y.leaves)
    together = all(in_step(x, w.m[j]) and w.m[j].joined for j in members_of(x.set))
    if x.up and x.st == C and x.joined and first(x.set) == i and outcome is None and x.ep < opt.epochs and together and rest not in (0, x.set):
        yield f"{i} wins epoch {x.ep + 1} for those who stay, {members_of(rest)}", w._replace(decided=tuple(sorted({**decided, x.ep + 1: rest}.items())))
    if x.up and x.st == C and outcome:
        if outcome >> i & 1:
            yield f"{i} learns of epoch {x.ep + 1}", put(w, i, ep=x.ep + 1, set=outcome, joined=False, leases=0)
        else:
            yield f"{i} learns that it is stale", put(w, i, st=T, joined=False, leases=0)
    if x.st == R and outcome and not outcome >> i & 1:
        yield f"{i} has nobody to recover from", put(w, i, st=T)
    if x.up and x.st == R and outcome and outcome >> i & 1:
        yield f"{i} follows into epoch {x.ep + 1}", put(w, i, st=C, ep=x.ep + 1, set=outcome, joined=False, whole=opt.broken == "newcomer",
                                                           intent=opt.broken != "newcomer")


def given(w, i, ver, opt):
    return put(w, i, ver=ver, synced=w.m[i].synced if opt.broken == "flush" else ver)


def agreements(w, i, x, opt):
    """A set whose members are not all joined: after a vote, or after restarts."""
    if not x.up or x.st != C or x.joined:
        return
    mates = [j for j in members_of(x.set) if j != i]
    there = all(in_step(x, w.m[j]) for j in mates)
    joined = [j for j in mates if in_step(x, w.m[j]) and w.m[j].joined]
    if joined and (there or opt.broken == "vouchall"):
        q = joined[0]
        after = w if opt.broken == "agree" and complete(x, opt) else given(w, i, w.m[q].ver, opt)
        after = put(after, i, joined=True, whole=True, begun=x.ep)
        equal = [j for j in mates if j != q] if opt.broken != "vouchall" else []
        for j in equal:
            after = given(after, j, w.m[q].ver, opt)
        flight = w.flight
        if flight and (flight[0] != q or flight[1] != x.ep):
            flight = None  # Its orderer has forgotten it.
        elif flight:
            flight = flight[:3] + (flight[3] | sum(1 << j for j in [i] + equal),)
        yield f"{q} vouches for {i}", after._replace(flight=flight)
        return
    if joined or not there:
        return
    able = [j for j in members_of(x.set) if complete(w.m[j], opt)]
    begun = [j for j in members_of(x.set) if w.m[j].begun == x.ep]
    # Of those that are complete any may be the source; the core takes one that is sure of its operations.
    source, leads = None, able or begun[:1] or [first(x.set)]
    if not able and not begun and opt.broken != "unbegun":
        # Nobody has acted in this epoch: who has left since the last one that was has all that was acknowledged. Or nobody has.
        outside = [y for j, y in enumerate(w.m) if not x.set >> j & 1]
        source = next((y for y in outside if y.up and left_with_all(w, x, y, opt)), None)
        if source is None:
            leads = [max(members_of(x.set), key=lambda j: (w.m[j].begun, -j))]
            if not w.m[leads[0]].begun or not all(y.up and y.st != C and not left_with_all(w, x, y, opt) for y in outside):
                return
    if i not in leads:
        return
    # Leases that were given in older epochs to who does not know of this one.
    waits = any(y.leases >> i & 1 and y.ep < x.ep and not (y.leaves and first(y.set) != j) for j, y in enumerate(w.m))
    if not waits or opt.broken == "wait":
        ver = source.ver if source else x.ver
        flight = (i, x.ep) + w.flight[2:3] + (1 << i,) if w.flight and w.flight[0] == i and first(x.set) == i and ver == w.flight[2] else None
        after = put(w, i, ver=ver, synced=x.synced if able else ver, joined=True, whole=True, begun=x.ep)
        yield f"{i} begins epoch {x.ep}", after._replace(flight=flight)


def recovery(w, i, x, opt):
    """i is the first of a set that serves."""
    if not (x.up and x.st == C and x.joined and first(x.set) == i) or w.flight:
        return
    together = all(in_step(x, w.m[j]) and w.m[j].joined for j in members_of(x.set) if j != i)
    for j, y in enumerate(w.m):
        if not y.up or x.set >> j & 1 or y.leaves:
            continue
        if y.st == T and together:
            yield f"{j} recovers from {i}", put(w, j, st=R, ep=x.ep, ver=x.ver, intent=True, whole=False, begun=0)
        ready = y.st == R and y.ep == x.ep and y.ver == x.ver and (y.synced == y.ver or opt.broken == "flush")
        if ready and together and x.ep < opt.epochs:
            larger = x.set | 1 << j
            if opt.broken == "vote":
                now = dict(st=C, ep=x.ep + 1, set=larger, joined=True, begun=x.ep + 1)
                yield f"{i} takes {j} into epoch {x.ep + 1}", put(put(w, i, **now), j, whole=True, **now)
            elif x.ep + 1 not in dict(w.decided):
                yield f"{i} wins epoch {x.ep + 1} with {j}", w._replace(decided=tuple(sorted({**dict(w.decided), x.ep + 1: larger}.items())))


def steps(w, opt):
    for i, x in enumerate(w.m):
        if serves(w, i, opt) and w.flight is None:  # Unsettled: read_model.py.
            yield f"{i} reads {x.ver}", w._replace(seen=-1 if x.ver < max(w.seen, w.acked, w.durable) else x.ver)
        for j, y in enumerate(w.m):
            if j != i and in_step(x, y) and x.up and x.st == C and x.joined and y.joined and not x.leases >> j & 1:
                yield f"{j} grants {i} a lease", put(w, i, leases=x.leases | 1 << j)
        for j in members_of(x.leases):
            yield f"the lease that {j} gave {i} runs out", put(w, i, leases=x.leases & ~(1 << j))
        yield from failures(w, i, x, opt)
        yield from changes(w, i, x, opt)
        yield from votes(w, i, x, opt)
        yield from agreements(w, i, x, opt)
        yield from recovery(w, i, x, opt)


def check(title, opt):
    member = Member(C, 1, ALL, 0, 0, True, False, True, True, 0, 1, False)
    start = World((member,) * N, (), 0, 0, 0, None, 0, 0, 0, 0, 0)
    if opt.start == 1:  # With a write that is on no disk yet.
        member, start = member._replace(ver=1, intent=True), start._replace(acked=1, writes=1)
    if opt.start:
        later = 0b101 if opt.start == 1 else 0b001
        inside = member._replace(ep=2, set=later, joined=opt.start == 2, begun=opt.start)
        outside = member._replace(st=T, joined=False)
        start = start._replace(m=tuple(inside if later >> i & 1 else outside for i in range(N)), decided=((2, later),))
    return explore.report(title, start, steps, violation, opt)


if __name__ == "__main__":
    sys.exit(explore.main(__doc__, check, RULES, ["crashes=1", "stops=1", "start=1 losses=2 epochs=3"],
                          ["losses=1", "stops=1 crashes=1", "stops=1 losses=1", "stops=2", "crashes=1 epochs=3", "crashes=2", "writes=2 crashes=1", "losses=2", "crashes=1 losses=1", "writes=2 losses=1 epochs=3", "start=2 losses=1 disks=1 epochs=4"],
                          late=["stand", "unbegun", "flush"], writes=1, crashes=0, losses=0, stops=0, disks=0, epochs=2, start=0))
