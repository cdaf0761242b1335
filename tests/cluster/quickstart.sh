#!/bin/bash
# scripts/quickstart as people run it: twice, stopped twice, with something going wrong, without /dev/fuse, and as an
# ordinary user.
#
#   tests/cluster/quickstart.sh SOURCE
#
# Exit code 77 (skipped): nothing can be mounted here.
set -euo pipefail
# shellcheck source=tests/lib/skip.sh
. "$(dirname "$0")/../lib/skip.sh"

source_dir=$(cd "$1" && pwd)
[ -c /dev/fuse ] || skip_test cluster/quickstart "there is no /dev/fuse"
work=$(mktemp -d /tmp/morsel-quickstart-XXXXXX)
cluster=$work/cluster
morsel=$source_dir/build/release/bin/morsel

# shellcheck disable=SC2317 # called by the trap
cleanup() {
    for dir in "$cluster" "$work/user/cluster"; do
        [ ! -d "$dir/run" ] || "$morsel" cluster stop --force "$dir" || true
    done
    rm -rf "$work"
}
trap cleanup EXIT

fail() {
    echo "FAIL $*"
    exit 1
}

quickstart() {
    "$source_dir/scripts/quickstart" --dir "$cluster" --size 48M --tree "$source_dir/src" "$@" </dev/null
}

expect_stopped() {
    ! "$morsel" cluster status "$1" >"$work/status" || { cat "$work/status" && fail "a cluster runs in $1"; }
    ! grep -E '^  .*pid [0-9]' "$work/status" || fail "a process is left"
    ! grep -F " $1" /proc/self/mounts || fail "a mount is left"
}

# ---- Twice, and stopped twice

quickstart >"$work/log" 2>&1 || { cat "$work/log" && fail "quickstart"; }
for words in 'replicas  *2  *default of the cluster (auto)' 'checksums of all' 'written and synced' 'large file read' 'the copy went on' 'all copies were complete' 'read from the benefactors, and the same' 'fetched from the web server, and the same' 'three had left, and the same' 'COLUMN' 'Try next'; do
    grep -q "$words" "$work/log" || { cat "$work/log" && fail "quickstart does not say \"$words\""; }
done
"$morsel" cluster status --json "$cluster" | jq -e '.running and .mount != null and (.processes | map(select(.running and (.name | startswith("benefactor") | not))) | length) == 5' >/dev/null ||
    fail "the cluster does not run"
pids() { # Of what is not killed on purpose.
    cat "$cluster"/run/iod-[134].pid "$cluster/run/meta.pid"
}
pids_before=$(pids)
quickstart >"$work/log" 2>&1 || { cat "$work/log" && fail "quickstart, once more"; }
[ "$pids_before" = "$(pids)" ] || fail "the daemons were started again"
[ ! -e "$cluster/scratch" ] || fail "the scratch files are left"
quickstart --stop >"$work/log" || fail "quickstart --stop"
expect_stopped "$cluster"
quickstart --stop >"$work/log" || fail "quickstart --stop, once more"

# ---- What was stored is there after a restart

"$morsel" cluster start --mount="$cluster/mount" "$cluster" >/dev/null || fail "start after stop"
diff -r "$source_dir/src" "$cluster/mount/quickstart/tree" || fail "the tree changed over a restart"
"$morsel" cluster stop "$cluster" || fail "stop"

# ---- A failure on the way leaves nothing running

mkdir "$work/fake"
printf '#!/bin/sh\nexit 1\n' >"$work/fake/cp"
chmod +x "$work/fake/cp"
! PATH=$work/fake:$PATH quickstart >"$work/log" 2>&1 || fail "quickstart does not notice that cp fails"
grep -q 'was stopped again' "$work/log" || { cat "$work/log" && fail "quickstart does not say that it stopped"; }
expect_stopped "$cluster"

# ---- Stale pid files, as after a power cut: another boot, and pids of others

"$morsel" cluster start "$cluster" >/dev/null || fail "start"
for file in "$cluster"/run/*.pid; do
    cp "$file" "$work/$(basename "$file")"
done
"$morsel" cluster stop "$cluster" || fail "stop"
for file in "$cluster"/run/*.address; do
    name=$(basename "$file" .address)
    echo "$$ 1 00000000-0000-0000-0000-000000000000" >"$cluster/run/$name.pid"
done
expect_stopped "$cluster"
"$morsel" cluster start "$cluster" >/dev/null || fail "start over stale pid files"
"$morsel" cluster stop "$cluster" || fail "stop after stale pid files"
kill -0 $$ || fail "stop has killed somebody else"

[ "$(id -u)" = 0 ] || { echo "quickstart: good" && exit 0; }

# ---- Without /dev/fuse: said at once

: >"$work/no-fuse"
# shellcheck disable=SC2016 # for the inner shell
if unshare --mount --propagation private bash -c 'mount --bind "$0" /dev/fuse && exec "$@"' "$work/no-fuse" \
    "$source_dir/scripts/quickstart" --dir "$cluster" >"$work/log" 2>&1; then
    fail "quickstart works without /dev/fuse"
fi
[ "$(wc -l <"$work/log")" = 1 ] || { cat "$work/log" && fail "quickstart says more than one line without /dev/fuse"; }
grep -q '/dev/fuse is missing' "$work/log" || fail "quickstart does not say that /dev/fuse is missing"

# ---- As an ordinary user: a copy of this checkout that belongs to him, at the same place so that nothing is built again

user=nobody
if ! setpriv --reuid=$user --regid=nogroup --clear-groups test -r "$source_dir/scripts/quickstart"; then
    echo "quickstart: good (not tried as an ordinary user, who cannot read $source_dir)"
    exit 0
fi
mkdir -p "$work/copy/build" "$work/user"
chmod 755 "$work"
tar -C "$source_dir" --exclude=./build --exclude=./.git -cf - . | tar -C "$work/copy" -xf -
cp -a "$source_dir/build/release" "$work/copy/build/release"
chown -R $user:nogroup "$work/copy" "$work/user"
# shellcheck disable=SC2016 # for the inner shell
unshare --mount --propagation private bash -c '
    set -e
    mount --bind "$1/copy" "$2"
    if [ "$(stat -c %a /dev/fuse)" != 666 ]; then # As udev would make it.
        mkdir "$1/dev"
        mount -t tmpfs tmpfs "$1/dev"
        mknod -m 666 "$1/dev/fuse" c 10 229
        mount --bind "$1/dev/fuse" /dev/fuse
    fi
    export HOME="$1/user"
    run() {
        setpriv --reuid=nobody --regid=nogroup --clear-groups "$2/scripts/quickstart" --dir "$1/user/cluster" "${@:3}"
    }
    run "$1" "$2" --size 16M --tree "$2/src"
    run "$1" "$2" --stop
' bash "$work" "$source_dir" >"$work/log" 2>&1 </dev/null || { cat "$work/log" && fail "quickstart as $user"; }
expect_stopped "$work/user/cluster"
echo "quickstart: good"
