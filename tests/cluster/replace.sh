#!/bin/bash
# A name that always exists, because what it names is only ever replaced by rename: opening it, reading the link and stat never fail, on the
# same mount and on another one; and what was replaced goes.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
cluster_begin replace "$1"
start_cluster 2
start_mount a
a=$mnt
start_mount b
b=$mnt
cat >"$work/replace.py" <<'PY'
import os, sys, time
role, mnt, seconds, floor = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
began = time.monotonic()
count = failed = 0
while time.monotonic() < began + seconds or (count < floor and time.monotonic() < began + 20 * seconds):
    count += 1
    if role == "replace":
        name = f"{mnt}/next{os.getpid()}"
        with open(name, "w") as f:
            f.write(str(count))
        os.rename(name, f"{mnt}/file")
        os.symlink(f"target{count}", name)
        os.rename(name, f"{mnt}/link")
        continue
    try:
        fd = os.open(f"{mnt}/file", os.O_RDONLY)
        assert os.read(fd, 100).decode().isdigit(), "no whole file"
        os.close(fd)
        assert os.readlink(f"{mnt}/link").startswith("target")
        os.stat(f"{mnt}/file")
        os.lstat(f"{mnt}/link")
    except OSError as e:
        failed += 1
        print(e, file=sys.stderr)
print(count, failed)
PY
printf 0 >"$a/file"
ln -s target0 "$a/link"
start=()
for job in "replace $a" "replace $a" "replace $b" "read $a" "read $a" "read $b"; do
    read -r role where <<<"$job"
    python3 "$work/replace.py" "$role" "$where" 8 200 >"$work/job${#start[@]}" 2>"$work/error${#start[@]}" &
    start+=("$!")
    children+=("$!")
done
for i in "${!start[@]}"; do
    wait "${start[$i]}" || fail "job $i: $(tail -n 3 "$work/error$i")"
done
replaced=$(cat "$work"/job[012] | awk '{ n += $1 } END { print n }')
read_count=$(cat "$work"/job[345] | awk '{ n += $1 } END { print n }')
failed=$(cat "$work"/job[345] | awk '{ n += $2 } END { print n }')
note "$replaced times replaced, $read_count times read, $failed times in vain"
[ "$failed" = 0 ] || fail "a name that always exists was not there or stale: $(sort "$work"/error? | uniq -c | head -n 5)"
[ "$replaced" -ge 200 ] && [ "$read_count" -ge 600 ] || fail "too little happened: $replaced and $read_count"
# What nobody has open any more goes.
nothing_is_left() {
    morsel stats | awk '$1 == "orphans" || $1 == "open_files" { left += $2 } END { exit left > 0 }'
}
wait_for 60 "what was replaced goes" nothing_is_left
fsck_clean
cluster_end
