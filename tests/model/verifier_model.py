#!/usr/bin/python3
"""verifier_model.py - what a yes of fsync is worth, and the pair's verifier.

Each write has bytes of its own (a bit), is ordered, applied at both members and acknowledged with a verifier; fsync syncs both members (or the
one that stands alone) and says yes if its verifier equals that of every write that it covers. Machines lose power (what was not synced is
gone), syncs fail (likewise), processes die, each member may go standalone, the other recovers. Mirror leases are pair_model's subject: a
consistent member whose mirror is standalone counts as not serving.

Checked: bytes of which fsync said yes are in every member that serves; and fsync never says no when nothing can have been lost (no power
loss and no failed sync at all, or a single one with the mirror there). --break removes one rule:
  verifier   the verifier never changes                                  own        it belongs to the member, not to the pair
  both       ... not when both members may have lost bytes               reported   a mount that takes over knows only the present verifier
  standalone ... not when the standalone member lost power               when       a write carries the verifier of its answer, not of its ordering
  failed     ... not when a sync failed that has no good mirror          after      fsync carries the verifier from before the sync, not after it
  syncboth   fsync of a consistent pair is content with one disk
A member of a consistent pair whose sync failed counts as restarted without being whole: it serves nothing until it is vouched for.
"""
import collections
import sys

import explore
from explore import put

RULES = dict.fromkeys("verifier both standalone failed own when after reported syncboth".split(), "")
C, A, T = "C", "A", "T"  # consistent, standalone, stale
Member = collections.namedtuple("Member", "st ep mem disk intent whole up joined vf")
# mem, disk, intent: sets of writes, as bits; whole: cannot have lost an acknowledged byte; vf: the verifier of the pair as this member holds it.
World = collections.namedtuple("World", "m write sync decided fresh unsynced durable false_no writes losses crashes")
# write: None or (coordinator, bit, verifier, applied here, applied by the mirror); sync: None or (coordinator, bits, verifier, here, there);
# unsynced: (bit, verifier) of what was acknowledged and not yet synced; durable: bits of which fsync said yes.


def violation(w):
    if w.false_no:
        return "fsync says no although nothing can have been lost"
    for i, x in enumerate(w.m):
        if acts(w, i) and (x.joined or x.st == A) and w.durable & ~x.mem and not (x.st == C and w.m[1 - i].st == A):
            return f"bytes of which fsync said yes are gone from {i}, which serves"
    return None


def acts(w, i):
    x = w.m[i]
    return x.up and (x.st == A or x.st == C and i == 0 and x.joined)


def renewed(w, opt, why):
    """(verifier, world) after a change of the verifier that rule `why` asks for."""
    return None if opt.broken in ("verifier", why) else w.fresh


def drop(w, i):
    """What i coordinated is forgotten."""
    return w._replace(write=None if w.write and w.write[0] == i else w.write, sync=None if w.sync and w.sync[0] == i else w.sync)


def steps(w, opt):
    decided = dict(w.decided)
    for i in (0, 1):
        x, y = w.m[i], w.m[1 - i]
        together = x.up and y.up
        mirror = together and x.st == y.st == C and x.ep == y.ep and y.joined
        # --- writes ---
        if acts(w, i) and not w.write and w.writes < opt.writes:
            yield f"{i} orders write {w.writes}", w._replace(write=(i, 1 << w.writes, x.vf, False, False), writes=w.writes + 1)
        if w.write and w.write[0] == i and acts(w, i):
            _, bit, vf, here, there = w.write
            if not here:
                yield f"{i} applies it", put(w, i, mem=x.mem | bit, intent=x.intent | bit)._replace(write=(i, bit, vf, True, there))
            if not there and mirror:
                yield f"{1 - i} applies it", put(w, 1 - i, mem=y.mem | bit, intent=y.intent | bit)._replace(write=(i, bit, vf, here, True))
            if here and (there or x.st == A):
                yield "the write is acknowledged", w._replace(write=None, unsynced=w.unsynced | {(bit, x.vf if opt.broken == "when" else vf)})
        # --- fsync ---
        if acts(w, i) and not w.sync and w.unsynced:
            yield f"fsync is sent to {i}", w._replace(sync=(i, sum(bit for bit, _ in w.unsynced), x.vf, False, False))
        if w.sync and w.sync[0] == i and acts(w, i):
            _, bits, vf, here, there = w.sync
            if not here:
                yield f"{i} syncs for it", put(w, i, disk=x.mem)._replace(sync=(i, bits, vf, True, there))
            if not there and mirror:
                yield f"{1 - i} syncs for it", put(w, 1 - i, disk=y.mem)._replace(sync=(i, bits, vf, here, True))
            if here and (there or x.st == A or opt.broken == "syncboth"):
                told = vf if opt.broken == "after" else x.vf
                good = all(v == told for bit, v in w.unsynced if bit & bits)
                after = w._replace(sync=None, unsynced=frozenset(u for u in w.unsynced if not u[0] & bits))
                yield "fsync says " + ("yes" if good else "no"), after._replace(durable=w.durable | bits) if good else \
                    after._replace(false_no=w.losses == 0 or w.losses + w.crashes == 1 and not w.decided)
        if opt.broken == "reported" and acts(w, i) and w.unsynced:
            yield "another mount takes over, and sees the present verifier only", w._replace(unsynced=frozenset((bit, x.vf) for bit, _ in w.unsynced))
        if x.up and x.mem != x.disk:
            yield f"{i} writes back", put(w, i, disk=x.mem)
        if together and x.intent and x.st == y.st == C and x.ep == y.ep and x.joined and y.joined and not w.write and not x.intent & ~(x.disk & y.disk):
            yield f"{i} clears write intent", put(w, i, intent=0)
        # --- what fails: a process, a machine, a sync ---
        if x.up and w.crashes < opt.crashes:
            yield f"process {i} dies", drop(put(w, i, up=False, joined=False), i)._replace(crashes=w.crashes + 1)
        if w.losses < opt.losses:
            yield f"machine {i} loses power", drop(put(w, i, up=False, joined=False, mem=x.disk, whole=not x.intent), i)._replace(losses=w.losses + 1)
            if x.up and x.mem != x.disk and x.st == A:
                vf = renewed(w, opt, "failed")
                yield f"a sync of {i} fails", put(w, i, mem=x.disk, vf=vf or x.vf)._replace(losses=w.losses + 1, fresh=w.fresh + (vf is not None))
            if x.up and x.mem != x.disk and x.st == C:
                yield f"a sync of {i} fails", drop(put(w, i, mem=x.disk, joined=False, whole=False), i)._replace(losses=w.losses + 1)
        if not x.up:
            vf = renewed(w, opt, "standalone") if x.st == A and not x.whole else None
            after = put(w, i, up=True, whole=x.whole or x.st == A, vf=vf or x.vf)._replace(fresh=w.fresh + (vf is not None))
            yield f"{i} starts", put(after, i, vf=w.fresh)._replace(fresh=w.fresh + 1) if opt.broken == "own" else after
        # --- vote ---
        if x.up and x.st == C and (x.joined or x.whole) and x.ep < opt.epochs and decided.get(x.ep + 1, i) == i:
            yield f"{i} goes standalone", put(w, i, st=A, ep=x.ep + 1, joined=True, vf=10 + i if opt.broken == "own" else x.vf)._replace(
                decided=tuple(sorted({**decided, x.ep + 1: i}.items())))
        if x.up and x.st == C and decided.get(x.ep + 1) == 1 - i:
            yield f"{i} learns that it is stale", drop(put(w, i, st=T), i)
        # --- coming back ---
        same = together and x.st == y.st == C and x.ep == y.ep and not x.joined and x.ep + 1 not in decided
        again = w.write[:4] + (False,) if w.write else None
        resync = w.sync[:4] + (False,) if w.sync else None
        given = dict(mem=y.mem, disk=y.mem, whole=True, joined=True, vf=y.vf)
        if same and y.joined:
            yield f"{1 - i} vouches for {i}", put(w, i, **given)._replace(write=again, sync=resync)
        if same and not y.joined and y.whole and (not x.whole or i == 1):
            yield f"both restarted: {1 - i} lost nothing and vouches", put(put(w, i, **given), 1 - i, joined=True)
        if same and not y.joined and not x.whole and not y.whole and i == 1:
            vf = renewed(w, opt, "both")
            both = dict(given, vf=vf or y.vf)
            yield "both may have lost: the primary's copy wins", put(put(w, 0, **both), 1, **both)._replace(fresh=w.fresh + (vf is not None))
        if together and x.st == T and y.st == A and not w.write and not w.sync:
            yield f"{i} recovers from {1 - i}", put(put(w, i, st=C, ep=y.ep + 1, intent=y.intent, **given), 1 - i, st=C, ep=y.ep + 1)


def check(title, opt):
    member = Member(C, 1, 0, 0, 0, True, True, True, 1)
    return explore.report(title, World((member, member), None, None, (), 2, frozenset(), 0, False, 0, 0, 0), steps, violation, opt)


if __name__ == "__main__":
    sys.exit(explore.main(__doc__, check, RULES, ["", "writes=2 losses=1"], ["writes=2"], writes=1, losses=2, crashes=1, epochs=3))
