#!/bin/bash
# The manager's own permission checks: root of a machine that is not trusted is nobody, whatever the kernel there believes, and its other users
# may what they may everywhere.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin squash "$1"
start_host far
listen_for_host
start_meta --squash root --trusted "$host_address" --squash-uid 777 --squash-gid 778
start_iod 1
start_iod 2
wait_for 60 "two servers" servers_up 2
start_near_and_far allow_other

python3 - "$near" "$far" <<'PY'
import errno, os, shutil, subprocess, sys
near, far = sys.argv[1:]
ALICE, BOB, STAFF = 5001, 5002, 5050

def refused(what, *codes):
    try:
        what()
    except OSError as e:
        assert e.errno in (codes or (errno.EACCES, errno.EPERM)), e
        return
    raise AssertionError("was let through")

def as_user(uid, gid, groups, what):
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups(groups); os.setgid(gid); os.setuid(uid)
            what()
            os._exit(0)
        except BaseException as e:
            print("as", uid, repr(e), file=sys.stderr)
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0, (uid, groups)

def write(path, text, mode=None):
    with open(path, "w") as f:
        f.write(text)
    if mode is not None:
        os.chmod(path, mode)

def read(path):
    with open(path) as f:
        return f.read()

# What root has made on a machine that is trusted.
write(f"{near}/secret", "secret", 0o600)
write(f"{near}/public", "public", 0o644)
os.mkdir(f"{near}/drop", 0o777); os.chmod(f"{near}/drop", 0o777)
os.mkdir(f"{near}/sticky"); os.chmod(f"{near}/sticky", 0o1777)
write(f"{near}/sticky/roots", "")
os.mkdir(f"{near}/closed"); os.chmod(f"{near}/closed", 0o700)
write(f"{near}/closed/inside", "inside", 0o644)
os.mkdir(f"{near}/alice"); os.chown(f"{near}/alice", ALICE, ALICE); os.chmod(f"{near}/alice", 0o700)
os.mkdir(f"{near}/staff"); os.chown(f"{near}/staff", 0, STAFF); os.chmod(f"{near}/staff", 0o2770)
shutil.copyfile("/bin/true", f"{near}/tool"); os.chmod(f"{near}/tool", 0o711)

# Root there is nobody.
assert read(f"{far}/public") == "public"
refused(lambda: read(f"{far}/secret"))
refused(lambda: read(f"{far}/closed/inside"))
refused(lambda: os.listdir(f"{far}/closed"))
refused(lambda: write(f"{far}/new", ""))
refused(lambda: write(f"{far}/public", ""))
refused(lambda: os.truncate(f"{far}/public", 0))
refused(lambda: os.unlink(f"{far}/public"))
refused(lambda: os.rename(f"{far}/public", f"{far}/drop/public"))
refused(lambda: os.unlink(f"{far}/sticky/roots"))
refused(lambda: os.chmod(f"{far}/public", 0o777))
refused(lambda: os.chown(f"{far}/public", 777, 777))
refused(lambda: os.utime(f"{far}/public", (1, 1)))
refused(lambda: os.setxattr(f"{far}/public", "user.a", b"1"))
refused(lambda: os.setxattr(f"{far}/drop", "user.morsel.stripe_width", b"1"))
refused(lambda: os.setxattr(f"{far}/public", "trusted.a", b"1"))
refused(lambda: os.listdir(f"{far}/alice"))
write(f"{far}/drop/mine", "mine")
st = os.stat(f"{near}/drop/mine")
assert (st.st_uid, st.st_gid) == (777, 778), st
assert read(f"{far}/drop/mine") == "mine" == read(f"{near}/drop/mine")
refused(lambda: os.chown(f"{far}/drop/mine", ALICE, -1))
os.chmod(f"{far}/drop/mine", 0o600)
assert read(f"{far}/drop/mine") == "mine"
os.unlink(f"{far}/drop/mine")
# What was open when it was allowed stays open.
write(f"{near}/drop/open", "before"); os.chmod(f"{near}/drop/open", 0o666)
f = open(f"{far}/drop/open", "r+")
os.chmod(f"{near}/drop/open", 0o600)
assert f.read() == "before"
f.write(" and after"); f.flush(); os.ftruncate(f.fileno(), 8)
os.fsync(f.fileno()); f.close()
assert read(f"{near}/drop/open") == "before a"
refused(lambda: open(f"{far}/drop/open"))

# The others are who they are.
def alice_works():
    write(f"{far}/alice/f", "alice")
    os.chmod(f"{far}/alice/f", 0o640)
    assert read(f"{far}/alice/f") == "alice"
    refused(lambda: read(f"{far}/secret"))
    refused(lambda: os.listdir(f"{far}/staff"))
    refused(lambda: read(f"{far}/tool"))
    assert subprocess.run([f"{far}/tool"]).returncode == 0  # May be executed, not read.
as_user(ALICE, ALICE, [], alice_works)
assert os.stat(f"{near}/alice/f").st_uid == ALICE
def staff_works():
    os.mkdir(f"{far}/staff/d")
    write(f"{far}/staff/d/f", "staff")
    assert os.stat(f"{far}/staff/d/f").st_gid == STAFF
    os.rename(f"{far}/staff/d/f", f"{far}/staff/g")
    os.rmdir(f"{far}/staff/d")
    assert "g" in os.listdir(f"{far}/staff")
as_user(BOB, BOB, [STAFF], staff_works)
as_user(BOB, BOB, [], lambda: refused(lambda: os.listdir(f"{far}/staff")))
# Groups that the cached attributes did not ask for: the directory changes hands while its attributes are cached.
os.mkdir(f"{near}/turns"); os.chmod(f"{near}/turns", 0o777)
def turns(i):
    os.close(os.open(f"{far}/turns/f{i}", os.O_CREAT | os.O_WRONLY))
    os.stat(f"{far}/turns")
for i in range(20):
    as_user(BOB, BOB, [STAFF], lambda: turns(i))
    os.chown(f"{near}/turns", 0, STAFF if i % 2 == 0 else 0)
    os.chmod(f"{near}/turns", 0o770 if i % 2 == 0 else 0o777)
# Root where it is trusted is root.
assert read(f"{near}/alice/f") == "alice"
os.chown(f"{near}/alice/f", BOB, BOB)
PY
note "root is squashed, others are not"
# Repairs are for those who are trusted.
"${on_host[@]}" "$bin/morsel" fsck --manager "$manager" >/dev/null || fail "a check was refused"
expect_error "not trusted" "${on_host[@]}" "$bin/morsel" fsck --manager "$manager" --repair
fsck_clean
cluster_end
