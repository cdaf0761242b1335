"""Breadth-first search through every state of a small model; shared by the *_model.py beside it (no program of its own).

A model has a start state, steps(state, opt) that yields (what happens, state after it), and violation(state) that says what is wrong or None.
States are hashable (named tuples). The trail that is printed is a shortest one.
"""
import argparse
import collections
import contextlib
import io
import time


def explore(start, steps, violation, opt):
    parent, queue = {start: None}, collections.deque([start])
    while queue:
        world = queue.popleft()
        for name, after in steps(world, opt):
            if after not in parent:
                parent[after] = (world, name)
                bad = violation(after)
                if bad:
                    return parent, after, bad
                queue.append(after)
    return parent, None, None


def put(world, i, **changes):
    """The world with member i changed."""
    members = list(world.m)
    members[i] = members[i]._replace(**changes)
    return world._replace(m=tuple(members))


def report(title, start, steps, violation, opt, alike=None):
    """Explore, print what came of it, and return True when nothing is wrong.

    alike: None, or (the steps before states that are alike were made one, what made them one), to print a trail with its true names.
    """
    began = time.time()
    parent, bad, why = explore(start, steps, violation, opt)
    print(f"{title}: {len(parent)} states, {time.time() - began:.0f} s", flush=True)
    if bad is None:
        return True
    trail = []
    while parent[bad]:
        before, name = parent[bad]
        trail.insert(0, (name, bad))
        bad = before
    names, state = [], start
    for name, after in trail:
        if alike:
            name, state = next((n, s) for n, s in alike[0](state, opt) if alike[1](s) == after)
        names.append(name)
    print(f"VIOLATION: {why}, after:\n  " + "\n  ".join(names))
    return False


def numbers_of(text, defaults):
    """"writes=1 crashes=2" and what is not said as in defaults."""
    return {**defaults, **{name: int(value) for name, value in (word.split("=") for word in text.split())}}


def show(check, numbers, broken=None):
    opt = argparse.Namespace(broken=broken, **numbers)
    title = " ".join(f"{name}={value}" for name, value in numbers.items()) + (f", without {broken}" if broken else "")
    return check(title, opt)


def prove(check, rules, defaults):
    """Break each rule, in a world in which that shows; true if each time something is wrong."""
    unseen = []
    for rule, world in rules.items():
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            fine = show(check, numbers_of(world, defaults), rule)
        lines = said.getvalue().splitlines()
        print(f"{lines[0]}: " + ("NOT SEEN" if fine else lines[1]), flush=True)
        if fine:
            unseen.append(rule)
    if unseen:
        print("FAILED: nothing goes wrong without " + ", ".join(unseen))
    return not unseen


def main(doc, check, rules, small, large, late=(), **defaults):
    """What a model is run with.

    check(title, opt): explore the world that opt gives, by report(). rules: each rule that opt.broken may name, with the numbers of a world in
    which breaking it shows. small, large: the worlds that are explored for each commit, and at night; late: the rules that are broken at night
    alone, for it takes long.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in defaults.items():
        parser.add_argument("--" + name, type=int, default=None, help=f"(default: {value})")
    parser.add_argument("--break", dest="broken", choices=list(rules), default=None)
    parser.add_argument("--full", action="store_true", help="the large worlds and all rules (minutes)")
    asked = vars(parser.parse_args())
    broken, full = asked.pop("broken"), asked.pop("full")
    given = {name: value for name, value in asked.items() if value is not None}
    if broken or given:
        numbers = {**numbers_of(rules.get(broken, ""), defaults), **given}
        return 0 if show(check, numbers, broken) else 1
    good = all([show(check, numbers_of(world, defaults)) for world in small + (large if full else [])])
    good = prove(check, {rule: world for rule, world in rules.items() if full or rule not in late}, defaults) and good
    print("nothing goes wrong with the rules, and something without each" if good else "FAILED")
    return 0 if good else 1
