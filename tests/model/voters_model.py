#!/usr/bin/python3
"""voters_model.py - the vote for one epoch (single-decree Paxos) while the set of voters changes by one at a time.

Members 0 and 1 each stand for themselves (candidate i uses ballots i + 1, i + 3, ...) among the voters in effect when they began, and may be
slow without bound. Meanwhile the manager changes the set, as one of PATHS says: voters are added, removed, replaced, and come back. For each
change it reads the votes of so many of the old set that each majority of it has one of them, then writes the highest one to a majority of the
new set, and only then is the new set in effect. A set with a "-" is given up at any moment before that: the next one is planned from the same old set, under a version above.

Checked: no two values are ever accepted by majorities. --break removes one rule:
  carryover  a new set is in effect without the old set's votes      seal     a voter that was read or written still answers older sets' ballots
  revote     a voter that lost its votes goes on under its old id    version  voters answer ballots of an older set, whatever they know
  enough     one voter less of the old set is read
Ballots 2: one for each candidate. Voters that are alike (SYMMETRIC) count once.
"""
import collections
import sys

import explore

RULES = {"carryover": "path=2", "revote": "path=0", "seal": "path=2", "version": "path=2", "enough": "path=2"}
PATHS = (("abc", "abcd", "abcde"), ("abcd", "abc"), ("abc", "abcd", "abd"), ("abcd", "abc", "abcd"), ("abc", "-abcd", "abce"), ("ab", "a", "ac"), ("ab", "b", "bc", "b"),
         ("abcd", "-abc", "abd", "abde"))
SYMMETRIC = (3, 3, 2, 3, 3, 1, 1, 2)  # so many of the first voters are alike: which is which makes no new state
Voter = collections.namedtuple("Voter", "promised ballot value version marks")
# promised: the highest ballot it answers; ballot, value: the vote that it gave last; version: the newest voter set it knows; marks: what
# others know of it: p, q: promised to candidate 0, 1; a, b: accepted by the word of candidate 0, 1; r: read by the manager, w: written; l: lost.
World = collections.namedtuple("World", "v rounds version plan best chosen path")
# rounds: of each candidate None or (ballot, voter set, highest vote among the promises); version: the newest voter set in effect; plan: the one after it;
# best: the highest vote that the manager has read on the way to the next set; chosen: values that a majority accepted.


def violation(w):
    return "two winners in one epoch" if len(w.chosen) > 1 else None


def put(w, name, mark="", **changes):
    k = "abcde".index(name)
    marks = "".join(sorted(set(w.v[k].marks + mark)))
    return w._replace(v=w.v[:k] + (w.v[k]._replace(marks=marks, **changes),) + w.v[k + 1:])


def enough(w, mark, voters, missing):
    """Of those who are left no majority can be made, nor could be before."""
    return 2 * (sum(mark not in w.v["abcde".index(n)].marks for n in voters) - missing) <= len(voters)


def unmark(w, marks):
    return w._replace(v=tuple(y._replace(marks="".join(m for m in y.marks if m not in marks)) for y in w.v))


def most(w, mark, voters):
    return 2 * sum(mark in w.v["abcde".index(n)].marks for n in voters) > len(voters)


def sort(w):
    alike = SYMMETRIC[w.path]
    return w._replace(v=tuple(sorted(w.v[:alike])) + w.v[alike:])


def steps(w, opt):
    for name, after in every_step(w, opt):
        yield name, sort(after)


def every_step(w, opt):
    sets = PATHS[w.path]
    voter = dict(zip("abcde", w.v))
    for i, promise, accept in ((0, "p", "a"), (1, "q", "b")):
        x = w.rounds[i]

        def with_round(world, r, i=i):
            return world._replace(rounds=world.rounds[:i] + (r,) + world.rounds[i + 1:])
        ballot = x[0] + 2 if x else i + 1
        if ballot <= opt.ballots:
            yield f"{i} starts ballot {ballot} among {sets[w.version]}", with_round(unmark(w, promise + accept), (ballot, w.version, (0, i)))
        if not x:
            continue
        ballot, version, best = x
        voters = sets[version]
        prepared = most(w, promise, voters)
        for n in voters:
            y = voter[n]
            if "l" in y.marks and opt.broken != "revote" or y.version > version and opt.broken != "version":
                continue  # it lost its votes, or knows a newer set
            newer = max(y.version, version)
            if not prepared and promise not in y.marks and y.promised < ballot:
                after = with_round(w, (ballot, version, max(best, (y.ballot, y.value)) if y.ballot else best))
                yield f"{n} promises ballot {ballot}", put(after, n, promise, promised=ballot, version=newer)
            if prepared and not most(w, accept, voters) and y.promised <= ballot and accept not in y.marks:
                after = put(w, n, accept, promised=ballot, ballot=ballot, value=best[1], version=newer)
                yield f"{n} accepts {best[1]} in ballot {ballot}", after._replace(chosen=w.chosen | {best[1]}) if most(after, accept, voters) else after
    if opt.broken == "revote" and not any("l" in y.marks for y in w.v):
        for n in "abc":
            kept = "".join(m for m in voter[n].marks if m in "pqab")
            yield f"{n} loses its votes", put(w, n, kept + "l", promised=0, ballot=0, value=-1, version=0)
    # --- the manager changes the set: it reads a majority of the old one, and writes to a majority of the new one ---
    if w.plan < len(sets):
        old, new, given_up = sets[w.version], sets[w.plan].strip("-"), sets[w.plan].startswith("-")
        if given_up:
            yield f"{new} is given up", unmark(w, "rw")._replace(plan=w.plan + 1, best=(0, -1))
        read = enough(w, "r", old, opt.broken == "enough")
        for n in old:
            y = voter[n]
            if not read and "r" not in y.marks:
                sealed = y.version if opt.broken == "seal" else max(y.version, w.plan)
                after = w._replace(best=max(w.best, (y.ballot, y.value))) if opt.broken != "carryover" else w
                yield f"the votes of {n} are read for {new}", put(after, n, "r", version=sealed)
        for n in new:
            y = voter[n]
            if read and "w" not in y.marks:
                after = put(w, n, "w", version=max(y.version, w.plan) if opt.broken != "seal" else y.version)
                if w.best[0] > y.ballot:
                    after = put(after, n, promised=max(y.promised, w.best[0]), ballot=w.best[0], value=w.best[1])
                if most(after, "w", new) and not given_up:
                    after = unmark(after, "rw")._replace(version=w.plan, plan=w.plan + 1, best=(0, -1))
                yield f"{n} of {new} holds them", after


def check(title, opt):
    sets = PATHS[opt.path]
    start = World((Voter(0, 0, -1, 0, ""),) * 5, (None, None), 0, 1, (0, -1), frozenset(), opt.path)
    return explore.report(title + ": " + " -> ".join(sets), start, steps, violation, opt, (every_step, sort))


if __name__ == "__main__":
    sys.exit(explore.main(__doc__, check, RULES, ["path=1", "path=4", "path=5", "path=6"], ["path=0", "path=2", "path=3", "path=7"], late=["seal", "version", "enough"], ballots=2, path=0))
