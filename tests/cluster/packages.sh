#!/bin/bash
# The Debian packages: build, install both on this machine, run a cluster from what was installed, purge.
#
#   tests/cluster/packages.sh SOURCE BUILD
#
# BUILD/packages keeps a release build. Exit code 77 (skipped): not root, or the packages are installed here for real.
set -euo pipefail
# shellcheck source=tests/lib/skip.sh
. "$(dirname "$0")/../lib/skip.sh"
# shellcheck source=tests/lib/ours.sh
. "$(dirname "$0")/../lib/ours.sh"

source_dir=$1
build=$2/packages

skip() {
    skip_test cluster/packages "$*"
}

[ "$(id -u)" = 0 ] || skip "only root can install packages"
command -v dpkg-shlibdeps >/dev/null || skip "dpkg-dev is not installed"
[ -c /dev/fuse ] || skip "there is no /dev/fuse"
for package in morselfs-server morselfs-benefactor morselfs-client morselfs-dev; do
    ! dpkg-query -W "$package" >/dev/null 2>&1 || skip "$package is installed here"
done
for path in /etc/morselfs /var/lib/morselfs; do
    [ ! -e "$path" ] || skip "$path exists"
done

# Away from the ports and mounts of this machine.
if [ "${MORSEL_TEST_UNSHARED:-no}" != yes ]; then
    MORSEL_TEST_UNSHARED=yes exec unshare --net --mount --propagation private "$0" "$@"
fi
ip link set lo up

work=$(mktemp -d /tmp/morsel-packages-XXXXXX)
pids=()
had_user=$(getent passwd morselfs || true)

# shellcheck disable=SC2317 # called by the trap
cleanup() {
    local pid
    umount -l "$work/mount" 2>/dev/null || true
    kill_ours TERM "${pids[@]}"
    for pid in "${pids[@]}"; do
        wait "$pid" 2>/dev/null || true
    done
    dpkg --purge morselfs-dev morselfs-client morselfs-benefactor morselfs-server >/dev/null 2>&1 || true
    rm -rf "$work" /var/lib/morselfs # Ours: it was not there when we began.
    [ -n "$had_user" ] || userdel morselfs 2>/dev/null || true
}
trap cleanup EXIT

fail() {
    echo "FAIL $*"
    exit 1
}

cmake -G Ninja -S "$source_dir" -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DMORSEL_TESTS=OFF >"$work/log" ||
    { cat "$work/log" && fail "configure"; }
cmake --build "$build" -j "${JOBS:-2}" >"$work/log" || { tail -n 30 "$work/log" && fail "build"; }
(cd "$build" && rm -f ./*.deb && cpack -G DEB >"$work/log" 2>&1) || { cat "$work/log" && fail "cpack"; }
debs=("$build"/*.deb)
[ ${#debs[@]} = 4 ] || fail "four packages expected, not ${#debs[@]}"

for deb in "${debs[@]}"; do
    grep -q libc6 <<<"$(dpkg-deb --field "$deb" Depends)" || fail "$deb: dependencies were not found out"
    while read -r mode owner _ _ _ path _; do
        case $owner in root/root) ;; *) fail "$deb: $path belongs to $owner" ;; esac
        case $mode in ????w*w* | d????w????w*) fail "$deb: $path may be written by others" ;; esac
    done < <(dpkg-deb --contents "$deb" | grep -v -- '->')
done

dpkg -i "${debs[@]}" >"$work/log" 2>&1 || { cat "$work/log" && fail "dpkg -i"; }

# ---- What is there

for program in morsel morsel-mount morsel-meta morsel-iod morsel-benefactor; do
    path=$(command -v "$program") || fail "$program is not on PATH"
    case $path in /usr/bin/* | /usr/sbin/*) ;; *) fail "$program is at $path" ;; esac
    grep -q "^$program " <<<"$("$program" --version)" || fail "$program --version"
    "$program" --help >"$work/help"
    page=$(man -w "$program") || fail "$program has no man page"
    # Every option of --help is in the page.
    man "$page" 2>/dev/null | col -b >"$work/page"
    while read -r option; do
        grep -qF -- "$option" "$work/page" || fail "$program: $option is not in its man page"
    done < <(grep -oE '^  (-h, )?--[^ =]+' "$work/help" | sed 's/.* //')
done
man -w morselfs >/dev/null || fail "morselfs(7) is missing"
[ "$(readlink -f /sbin/mount.fuse.morsel)" = /usr/bin/morsel-mount ] || fail "mount.fuse.morsel is not morsel-mount"
for program in morsel morsel-benefactor; do
    bash -n "/usr/share/bash-completion/completions/$program" || fail "the completion of $program does not parse"
done
for unit in system/morsel-{meta,iod,iod@,benefactor}.service user/morsel-benefactor.service; do
    file=/usr/lib/systemd/$unit
    [ -f "$file" ] || fail "$unit is missing"
    program=$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$file")
    [ -x "$program" ] || fail "$unit starts $program, which is not there"
done
# A program is linked with the C interface as others would do it; what it says without a cluster shows that it is that.
man -w 3 morsel >/dev/null || fail "morsel(3) is missing"
# shellcheck disable=SC2046 # words
cc -Wall -Werror -o "$work/dataset" /usr/share/doc/morselfs-dev/examples/dataset.c $(pkg-config --cflags --libs morsel) || fail "the example does not build with what is installed"
code=0
"$work/dataset" "$work/set" 5 2>"$work/log" || code=$?
[ "$code" = 1 ] && grep -q "on no mounted MorselFS" "$work/log" || { cat "$work/log" && fail "the example: exit code $code"; }
if command -v systemd-analyze >/dev/null; then
    systemd-analyze verify morsel-meta.service morsel-iod.service morsel-iod@1.service morsel-benefactor.service >"$work/log" 2>&1 || true
    systemd-analyze --user verify /usr/lib/systemd/user/morsel-benefactor.service >>"$work/log" 2>&1 || true
    ! grep -E 'morsel.*(Unknown|Failed|Invalid|ignoring)' "$work/log" || fail "systemd does not like the units"
fi
getent passwd morselfs >/dev/null || fail "the user morselfs was not made"

# ---- A cluster from the installed configuration, as the units run it

install -d -o morselfs -g morselfs -m 0700 /var/lib/morselfs/meta /var/lib/morselfs/iod /var/lib/morselfs/benefactor
start() {
    mkfifo -m 0600 "$work/ready"
    MORSEL_READY_FD=9 setpriv --reuid=morselfs --regid=morselfs --clear-groups \
        "$1" --config="$2" 9>"$work/ready" 2>>"$work/daemons.log" &
    pids+=($!)
    read -r -t 60 _ <"$work/ready" || { cat "$work/daemons.log" && fail "$1 does not start"; }
    rm "$work/ready"
}
start /usr/sbin/morsel-meta /etc/morselfs/meta.conf
start /usr/sbin/morsel-iod /etc/morselfs/iod.conf
# Nothing is donated before its owner has said how much.
code=0
/usr/bin/morsel-benefactor --config=/etc/morselfs/benefactor.conf 2>"$work/log" || code=$?
[ "$code" = 2 ] && grep -q 'how much is donated' "$work/log" || { cat "$work/log" && fail "a benefactor without donate: exit code $code"; }
sed -i 's/^#donate = .*/donate = 1%/' /etc/morselfs/benefactor.conf
start /usr/bin/morsel-benefactor /etc/morselfs/benefactor.conf
mkdir "$work/mount"
mount -t fuse.morsel 127.0.0.1:7460 "$work/mount"
cp -a "$source_dir/src" "$work/mount/src"
umount "$work/mount"
mount -t fuse.morsel -o ro 127.0.0.1:7460 "$work/mount"
diff -r "$source_dir/src" "$work/mount/src" || fail "the tree came back changed"
morsel layout "$work/mount/src/CMakeLists.txt" >/dev/null || fail "morsel layout"
umount "$work/mount"
morsel status >"$work/status" || { cat "$work/status" && fail "morsel status"; }
morsel fsck || fail "morsel fsck"
for pid in "${pids[@]}"; do
    kill "$pid"
    wait "$pid" || fail "a daemon did not end well"
done
pids=()

# ---- And away again

dpkg --purge morselfs-dev morselfs-client morselfs-benefactor morselfs-server >"$work/log" 2>&1 || { cat "$work/log" && fail "purge"; }
for path in /etc/morselfs /usr/include/morsel.h /usr/bin/morsel /usr/bin/morsel-mount /usr/sbin/morsel-meta /usr/sbin/morsel-iod \
    /usr/bin/morsel-benefactor /usr/sbin/mount.fuse.morsel /usr/lib/systemd/system/morsel-meta.service \
    /usr/lib/systemd/system/morsel-benefactor.service /usr/lib/systemd/user/morsel-benefactor.service; do
    [ ! -e "$path" ] || fail "$path is left after purge"
done
[ -d /var/lib/morselfs/iod ] || fail "purge has deleted people's data"
echo "packages: built, installed, used and purged"
