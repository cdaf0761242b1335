#!/bin/bash
# Processes of two mounts rename the same name to the same other name at the same moment: one has done it, the others hear that the name is
# gone; nobody who looks at the names meanwhile hears ESTALE. With leases, and without.
#
#   meetings.sh BUILD [ROUNDS]
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin meetings "$1"
start_cluster 2

# A process of mount a renames by a name that its kernel knows, and asks for the other one while the mount stands still. Meanwhile mount b renames so.
stands_still() {
    mkdir "$a/$1.still"
    touch "$a/$1.still/old"
    python3 - "$a/$1.still" "$b/$1.still" "${pid_of[mount-a_$1]}" <<'PY' || fail "$1: two have made the same rename"
import os, signal, subprocess, sys, time
a, b, mount = sys.argv[1:]
RENAMES = ("82", "264", "316") # rename(2), renameat(2), renameat2(2)
time.sleep(1.2)  # Right behind changes nothing is granted.
for _ in range(2):
    os.stat(f"{a}/old")
os.kill(int(mount), signal.SIGSTOP)
try:
    late = subprocess.Popen(["python3", "-c", "import os, sys\nos.rename(*sys.argv[1:])", f"{a}/old", f"{a}/new"], stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    while open(f"/proc/{late.pid}/syscall").read().split()[0] not in RENAMES:
        assert time.monotonic() < until, "it does not come to its rename"
        time.sleep(0.01)
    os.rename(f"{b}/old", f"{b}/new")
finally:
    os.kill(int(mount), signal.SIGCONT)
said = late.communicate()[1].decode()
if late.returncode == 0:
    sys.exit("the one of the mount that stood still was told so as well")
if "FileNotFoundError" not in said:
    sys.exit(said)
PY
}

for how in leases nocache; do
    options=()
    [ "$how" = leases ] || options=(nocache)
    start_mount "a_$how" "${options[@]}"
    a=$mnt
    start_mount "b_$how" "${options[@]}"
    b=$mnt
    mkdir "$a/$how"
    # What another mount has renamed, to a name that this one's kernel knows or to one that it does not, is found there, whatever is done with
    # it: also by what would make the name, which the kernel does not try twice.
    python3 - "$a/$how" "$b/$how" <<'PY' || fail "$how: a name that another mount has renamed is not found"
import os, sys, time
a, b = sys.argv[1:]
def reads(path):
    with open(path) as f:
        return f.read()
calls = {"stat": os.stat, "open": reads, "link": lambda p: os.link(p, "link"), "chmod": lambda p: os.chmod(p, 0o640),
         "utime": os.utime, "truncate": lambda p: os.truncate(p, 5), "access": lambda p: os.access(p, os.R_OK) or sys.exit("access"),
         "setxattr": lambda p: os.setxattr(p, "user.key", b"value"), "listxattr": os.listxattr, "statvfs": os.statvfs,
         "rename": lambda p: os.rename(p, "third"), "unlink": os.unlink}
def makes(make):
    def call(path):
        try:
            make(path)
        except FileExistsError:
            return
        sys.exit("a name that is there was made")
    return call
calls.update({"mkdir": makes(os.mkdir), "mknod": makes(os.mknod), "symlink": makes(lambda p: os.symlink("x", p)),
              "lock": makes(lambda p: os.link("file", p)),
              "create": makes(lambda p: os.close(os.open(p, os.O_CREAT | os.O_EXCL | os.O_WRONLY)))})
ROUNDS = 6
for name in calls:
    for i in range(ROUNDS):
        os.mkdir(f"{a}/{name}{i}")
        for file in ("file", "old") if i % 3 == 2 else ("file", "old", "new"):
            open(f"{a}/{name}{i}/{file}", "w").close()
time.sleep(1.2)  # Right behind changes nothing is granted.
wrong = []
for name, call in calls.items():
    for i in range(ROUNDS):
        os.chdir(f"{a}/{name}{i}")
        for look in range(1 + i % 2):
            if i % 3 != 2:
                os.stat("new")
            os.stat("old")
        os.rename(f"{b}/{name}{i}/old", f"{b}/{name}{i}/new")
        try:
            call("new")
        except OSError as e:
            wrong.append(f"{name}, round {i}: {e}")
sys.exit("\n".join(wrong) or 0)
PY
    stands_still "$how"
    said=$(timeout 1200 "$bin/meetings" "$test_seed" "${2:-${MEETINGS:-500}}" "$a/$how" "$b/$how") || fail "$how, seed $test_seed: $said"
    note "$how: $said"
done
fsck_clean
cluster_end
