# shellcheck shell=bash disable=SC2154
# Files that two mounts write to in all ways (writers.py), for tests that do something to them meanwhile:
#
#   make_written_files DIRECTORY    $written: their names
#   start_writers WHO DIRECTORY [WAY...]
#                                   WHO is one or two; in "$work/models" lies what they must be
#   go_round [NAME]                 all files of both, or that one, were written to once more
#   longest_of WHO                  notes the longest calls since the last time, in ms
#   all_move DIRECTORY [SECONDS]    from the mount at $here they get what their policy says, with tries for so long at most
#   end_writers                     they end, and have met no error
#   written_are_right DIRECTORY...  behind that: the files are what was written, as seen in each directory

declare -A say hear writer_of
written=()

make_written_files() {
    local name who
    written=(blocks log)
    for who in one two; do
        for name in overwrite append shape mapped database; do
            written+=("$name.$who")
        done
    done
    mkdir -p "$1" "$work/models"
    for name in "${written[@]}"; do
        if [ "$name" = log ]; then
            : >"$1/$name"
        else
            head -c 262144 /dev/urandom >"$1/$name"
        fi
    done
}

start_writers() {
    local who=$1 top=$2 word=
    shift 2
    mkfifo "$work/run/say.$who" "$work/run/hear.$who"
    python3 "$(dirname "${BASH_SOURCE[0]}")/writers.py" "$top" "$work/models" "$who" "$@" <"$work/run/say.$who" >"$work/run/hear.$who" 2>"$work/writers.$who.err" &
    writer_of[$who]=$!
    children+=("$!")
    exec {fd}>"$work/run/say.$who"
    say[$who]=$fd
    exec {fd}<"$work/run/hear.$who"
    hear[$who]=$fd
    read -r -t 60 word <&"$fd" || true
    [ "$word" = ready ] || fail "writers of $who: $word $(cat "$work/writers.$who.err")"
}

# ask_writers WHO WORD: the answer in $answer.
ask_writers() {
    answer=
    echo "$2" >&"${say[$1]}"
    read -r -t 60 answer <&"${hear[$1]}" || fail "writers of $1 do not answer: $(cat "$work/writers.$1.err")"
}

go_round() {
    local who
    for who in "${!say[@]}"; do
        ask_writers "$who" "round ${1:-}"
        [ "$answer" = "went round" ] || fail "writers of $who: $answer"
    done
}

longest_of() {
    ask_writers "$1" longest
    note "longest calls of $1, in ms: ${answer#* }"
}

all_move() {
    local until=$(($(now_ms) + ${2:-60} * 1000)) said
    until said=$(morsel recopy --json "$1"); do
        [ "$(now_ms)" -lt "$until" ] || fail "not all files were moved: $said"
    done
    [ "$(morsel recopy --json --dry-run "$1" | jq .files_wanted)" = 0 ] || fail "files lie otherwise than their policy says: $said"
}

end_writers() {
    local who
    for who in "${!say[@]}"; do
        ask_writers "$who" end
        [ "$answer" = ended ] || fail "writers of $who: $answer"
        wait "${writer_of[$who]}" || fail "writers of $who ended with an error: $(cat "$work/writers.$who.err")"
    done
}

written_are_right() {
    local name top
    for top in "$@"; do
        for name in "${written[@]}"; do
            case $name in
            blocks | log) ;;
            *) [ ! -e "$work/models/$name" ] || cmp "$top/$name" "$work/models/$name" || fail "$top/$name is not what was written" ;;
            esac
        done
        python3 - "$top" "$work/models" <<'PY' || fail "$top: what two mounts wrote is not what they wrote"
import os, struct, sys, zlib
top, models = sys.argv[1:]
file = open(f"{top}/blocks", "rb").read()
for odd, who in enumerate(("one", "two")):
    model = open(f"{models}/blocks.{who}", "rb").read() if os.path.exists(f"{models}/blocks.{who}") else file
    for at in range(odd * 4096, len(file), 8192):
        assert file[at:at + 4096] == model[at:at + 4096], f"blocks at {at}"
log, at, last = open(f"{top}/log", "rb").read(), 0, {}
while at < len(log):
    who, count, length, crc = struct.unpack_from("<4sIII", log, at)
    assert count == last.get(who, 0) + 1, f"log at {at}: record {count} of {who} behind {last.get(who, 0)}"
    within = [i for i in range(at + 16, at + 16 + length) if log[i:i + 4] in (b"one\0", b"two\0")]
    assert zlib.crc32(log[at + 16:at + 16 + length]) == crc, f"log at {at}: record {count} of {who}, {length} bytes, is damaged; there may be others in it at {within}"
    last[who], at = count, at + 16 + length
assert len(last) == 2 and at == len(log), f"log: {last}, {at} of {len(log)}"
PY
    done
}
