#!/bin/bash
# The house rules that a script can see.
#
#   tests/tidy.sh SOURCE BUILD
#
# BUILD is a built tree (libmorsel_core.a and the objects of src/ are looked into). Every breach is one line; all are
# printed before the script fails.
set -uo pipefail
cd "$1" || exit 1
build_dir=$2
bad=0

breach() {
    printf 'tidy: %s\n' "$*"
    bad=1
}

# Prints its input, one breach a line, with a reason behind it.
breaches() {
    local line
    while IFS= read -r line; do
        printf 'tidy: %s: %s\n' "$line" "$1"
        echo >>"$found"
    done
}

found=$(mktemp) || exit 1
trap 'rm -f "$found"' EXIT
mapfile -t files < <(git ls-files -co --exclude-standard 'src/*.[ch]' 'src/*.cc' 'tests/*.[ch]' | while read -r f; do
    [ -f "$f" ] && echo "$f"
done)
[ ${#files[@]} -gt 0 ] || breach "no sources found under $1"

is_pure() {
    case $1 in
    *_uv.[ch] | *_leveldb.[ch] | *_leveldb.cc | *_file.[ch] | *_proc.[ch] | *_tls.[ch] | *_fuse.[ch] | *_curl.[ch] | *_http.[ch] | */main.c) return 1 ;;
    esac
}

# 1. Files name their powers: a pure file sees no socket, file, clock, thread or random source. A header that only
#    declares what a *_uv.c or *_file.c of the same name does (rpc.h, store.h, log.h) has nothing to compile and is
#    caught through its users.
impure='#include <(uv|fuse|fuse_lowlevel|leveldb|openssl|curl|systemd|pthread|threads|unistd|fcntl|time|dirent|poll|signal|netdb|netinet|sys)[./>]'
calls='\b(time|rand|random|srand|clock_gettime|gettimeofday|getrandom|getenv|fopen|printf|puts|malloc_usable_size)\('
pure=() harmless=() sources=()
for f in "${files[@]}"; do
    case $f in src/*) sources+=("$f") ;; *) continue ;; esac
    if is_pure "$f"; then pure+=("$f"); fi
    case $f in src/*_proc.c | src/*/main.c) ;; *) harmless+=("$f") ;; esac
done
grep -HnE "$impure" "${pure[@]}" | grep -vE '<sys/(types|stat|cdefs)\.h>' | breaches "a pure file includes a header with powers (its suffix must name them)"
grep -HnE "$calls" "${pure[@]}" | grep '^[^:]*\.c:' | breaches "a pure file calls a function with powers"

# What makes, ends or replaces processes, or mounts, is called so.
grep -HnP '\b(v?fork|exec[lv][a-z]*|posix_spawnp?|p?kill|wait(pid|id)|u?mount2?)\((?![0-9])' "${harmless[@]}" |
    breaches "processes and mounts are the matter of *_proc.c"

# A pure header takes in no header with powers, by way of others either: whoever includes it would have them.
while read -r header power; do
    breach "src/$header is pure and reaches $power"
done < <(grep -HoE '^#include "[a-z0-9_/]+\.h"' "${files[@]}" | sed -nE 's|^src/([^:]*\.h):#include "(.*)"$|\1 \2|p' | awk '
    { from[$1] = from[$1] " " $2 }
    function has_powers(name) { return name ~ /_(uv|leveldb|file|proc|tls|fuse|curl|http)\.h$/ }
    function reach(name, seen,    list, count, i) {
        count = split(from[name], list)
        for (i = 1; i <= count; i++)
            if (!(list[i] in seen)) { seen[list[i]]; if (!has_powers(list[i])) reach(list[i], seen) }
    }
    END { for (name in from) if (!has_powers(name)) { split("", seen); reach(name, seen); for (found in seen) if (has_powers(found)) print name, found } }')

# 2. The same, seen by the linker: what the library of all pure files leaves open.
core=$(find "$build_dir" -name libmorsel_core.a | head -n 1)
if [ -z "$core" ]; then
    breach "libmorsel_core.a is missing in $build_dir; build first"
else
    # Memory, strings, formatting into memory, sorting, numbers; ISA-L's checksum; what check.c needs to say why it
    # aborts; and what compilers and sanitizers put in.
    allowed='^(mem(cpy|move|set|cmp|chr|rchr|mem)|str(n?len|n?cmp|n?casecmp|r?chr|str|n?dup|spn|cspn|pbrk|tok_r|sep|error_r)|stpcpy|'
    allowed+='v?snprintf|__(isoc99_)?v?sscanf|sscanf|qsort|bsearch|malloc|calloc|realloc|reallocarray|free|aligned_alloc|'
    allowed+='strto(u?ll?|u?max|d)|__isoc23_.*|__ctype_(b|tolower|toupper)_loc|to(upper|lower)|is(digit|space|alnum|alpha|print|xdigit)|'
    allowed+='abs|inet_pton|inet_ntop|abort|fprintf|stderr|__errno_location|crc32_iscsi|'
    allowed+='__stack_chk_fail|__.*_chk|_GLOBAL_OFFSET_TABLE_|__gcov_.*|__llvm_.*|__(asan|ubsan|tsan|sancov|sanitizer)_.*)$'
    while read -r symbol; do
        [[ $symbol =~ $allowed ]] || breach "the pure core needs '$symbol' from outside (see tests/tidy.sh, rule 2)"
    done < <(comm -23 \
        <(nm -u "$core" 2>/dev/null | awk '$1 == "U" || $1 == "w" { print $2 }' | sort -u) \
        <(nm --defined-only "$core" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u))
    # Standard error is for check.c alone.
    nm -A -u "$core" 2>/dev/null | grep -E ' (stderr|fprintf|abort)$' | grep -v ':check\.c\.o:' |
        breaches "only check.c may print or abort in the pure core"
fi

# 3. Roles do not know each other; common/ knows nobody.
for role in common meta iod benefactor client; do
    others='meta|iod|benefactor|client'
    [ "$role" = common ] || others=$(tr '|' '\n' <<<"$others" | grep -v "^$role$" | paste -sd'|')
    grep -HnE "#include \"($others)/" "${sources[@]}" | grep "^src/$role/" | breaches "$role includes another role"
done

# 4. Every file is built. Tests that leave the build rot.
database=$build_dir/compile_commands.json
for f in "${files[@]}"; do
    case $f in
    tests/fuzz/*.c) # Built by another preset: named in its CMakeLists.txt, with or without the suffix.
        name=$(basename "$f" .c)
        grep -qE "(^|[^a-z_])$name(\.c)?([^a-z_]|$)" tests/fuzz/CMakeLists.txt || breach "$f is in no CMakeLists.txt"
        ;;
    *.c | *.cc)
        grep -qF "/$f\"" "$database" || breach "$f is built by nobody (not in $database)"
        ;;
    esac
done

# 5. No mutable file-scope state: no object of src/ may have data that can be written (constants with pointers lie in
#    .data.rel.ro). Sanitizers add tables of their own, and protobuf-c's generated descriptors are not ours.
while read -r line; do
    breach "mutable file-scope data: $line"
done < <(find "$build_dir/src" \( -name '*.c.o' -o -name '*.cc.o' \) -not -path '*morsel_proto*' -print0 2>/dev/null | xargs -0 objdump -t 2>/dev/null |
    awk '/file format/ { o = $1; sub(/:$/, "", o) } /^[0-9a-f]+ ......O \.(data|bss|tdata|tbss)/ && !/ \.data\.rel\.ro/ { print $NF " in " o }' | grep -vE '^(DW\.ref\.|__(asan|ubsan|odr_asan|sancov|gcov|llvm|tsan)|\.?L)')

# 6. Leftovers.
grep -HnE '\b(TODO|FIXME|XXX|HACK)\b|^[[:space:]]*#[[:space:]]*if[[:space:]]+0\b' "${files[@]}" |
    breaches "finish it or delete it; git remembers"
# 7. Tabs, and machine paths that only exist on somebody's desk.
grep -HnP '\t' "${files[@]}" | breaches "tab"
git ls-files -co --exclude-standard src tests scripts cmake docs packaging '*.md' '*.txt' .ci | sort -u | while read -r f; do
    [ -f "$f" ] && [ "$f" != tests/tidy.sh ] && printf '%s\0' "$f"
done | xargs -0 grep -HnI -E '(^|[^[:alnum:]_.$}/-])/(work|home|root)/[[:alnum:]]' | breaches "a path of one machine"

for f in "${files[@]}"; do
    # 8. Files a person can hold in the head.
    lines=$(wc -l <"$f")
    [ "$lines" -lt 800 ] || breach "$f has $lines lines; split it by job (limit 800)"
    # 9. Header guards.
    case $f in
    src/*.h)
        guard=MORSEL_$(sed -e 's|^src/||' -e 's|[/.]|_|g' <<<"$f" | tr '[:lower:]' '[:upper:]')
        grep -q "^#ifndef $guard\$" "$f" && grep -q "^#define $guard\$" "$f" ||
            breach "$f: the header guard must be $guard"
        head -c 2 "$f" | grep -q '/\*' || breach "$f: a header begins with the comment that is its manual"
        ;;
    src/*.c | src/*.cc)
        head -c 2 "$f" | grep -q '/\*' || breach "$f: a file begins with what it is for"
        ;;
    tests/*.h)
        grep -q '^#ifndef ' "$f" || breach "$f: header guard is missing"
        ;;
    esac
done

# 10. Scripts are sound for the shell. `grep -q` ends at the first line that fits; what still writes to it then dies of SIGPIPE, and under pipefail
#     the answer is sometimes no although the line is there.
for f in scripts/* tests/*.sh tests/*/*.sh .ci/run; do
    [ -f "$f" ] && grep -q bash <<<"$(head -n 1 "$f")" && { bash -n "$f" || breach "$f does not parse"; }
    [ "$f" = tests/tidy.sh ] || grep -HnE '[|] *grep -[a-zA-Z]*q' "$f" | breaches "grep -q behind a pipe; use grep -q ... <<<\"\$(...)\""
done

# 11. Every message of the wire is fuzzed.
while read -r message; do
    grep -q "&morsel__${message}__descriptor," tests/fuzz/messages.c || breach "message $message is missing in tests/fuzz/messages.c"
done < <(sed -n 's/^message \([A-Za-z]*\).*/\1/p' src/common/rpc/proto/*.proto | sed 's/\(.\)\([A-Z]\)/\1_\2/g' | tr '[:upper:]' '[:lower:]')

# 12. The deliberate faults still fit the code (scripts/prove-tests sees whether they are caught).
for f in tests/faults/*.patch; do
    patch -s -p1 --dry-run -r - <"$f" >/dev/null 2>&1 || breach "$f does not apply any more; make the same fault in the code as it is now"
done

# 13. What a file's I/O servers are asked goes one way.
grep -HnE '\b(rpc_call_start|client_peer)\(' src/client/data/*.c src/client/fuse/*.c | grep -v '^src/client/data/column_uv\.c:' |
    breaches "the servers of a file are called through column_start() (src/client/data/column_uv.h)"

# 14. No circles: a module (x.c and x.h) is built on others and never, by way of them, on itself. tsort(1) names the members of each circle. What
#     a lower module has to say to an upper one it says through hooks that it is given.
edges=$(grep -HoE '^#include "[a-z0-9_/]+\.h"' "${files[@]}" | sed -nE 's|^src/([^:]*)\.[ch]:#include "(.*)\.h"$|\1 \2|p')
for room in client 'common|meta|iod|benefactor'; do
    while read -r module; do
        breach "src/$module lies on a circle of includes; see \`tsort\` in tests/tidy.sh"
    done < <(grep -E "^($room)/" <<<"$edges" | awk '$1 != $2' | LC_ALL=C tsort 2>&1 >/dev/null | sed -n 's/^tsort: \([a-z0-9_/]*\)$/\1/p' | sort -u)
done

# 15. A *_uv.c calls libuv, or drives those that do (modules with powers, which it or its header includes; a socket): all else is logic, and pure.
for f in "${files[@]}"; do
    case $f in src/*_uv.c) ;; *) continue ;; esac
    own=${f#src/}
    own=${own%.c}.h
    headers=$(cat "$f" "src/$own" 2>/dev/null | grep '^#include' | grep -vF "\"$own\"")
    grep -qE '\buv_[a-z]' "$f" || grep -qE '_(uv|leveldb|file|proc|fuse)\.h"|<sys/socket\.h>' <<<"$headers" ||
        breach "$f drives nothing that has powers: it is pure, and to be called so"
done

# 16. The parts of struct file and struct client are looked into by their owners alone (src/client, without the suffix); others ask them. Where a
#     part is a core of its own (columns, kernel) others may hand it to the core's functions. file_uv makes and ends all parts of a file.
while read -r look owners; do
    grep -HnE -e "$look" "${files[@]}" | grep '^src/client/' | grep -vE "^src/client/(${owners// /|})\.[ch]:" |
        breaches "only its owners look into this part, $owners; ask there (rule 16)"
done <<'parts'
->handles\b                          data/file_uv data/handles_uv
(file|from|to|truncating)->pins\b    data/file_uv
->lease_pins\b                       data/file_uv
file->columns\.|->columns\.stripe    data/file_uv data/scavenged_uv
->shape\.                            data/file_uv data/write_uv data/flush_uv data/truncate_uv
->buffer\.                           data/file_uv data/chunk_uv data/write_uv data/room_uv data/truncate_uv data/read_over_uv data/scavenged_uv
->durable\.                          data/file_uv data/durable_uv data/write_uv data/flush_uv data/truncate_uv
->kernel\.                           coherence/kernel_view
->opened\.                           data/file_uv coherence/opened_uv
->failures\.                         data/file_uv
->fetched\.                          data/file_uv data/fetch_uv
file->set\b                          data/file_uv data/scavenged_uv data/flush_uv data/fetch_uv
->lists\.                            data/file_uv
client->life\b                       client_uv
client->session\b                    manager/session_uv
client->servers\b                    manager/servers_uv
client->calls\b                      manager/behind_uv manager/call_queue_uv manager/call_uv
client->leases\b                     coherence/lease_uv
client->drops\b                      coherence/kernel_drop_uv
client->locks\b                      client_uv coherence/lock_uv
client->size_locks\b                 client_uv coherence/size_lock_uv
client->cache->                      coherence/meta_cache
data\.files\b                        data/file_uv
data\.closes\b                       data/closes_uv
data\.buffers\b                      data/chunk_uv data/room_uv
data\.fetches\b                      data/fetch_uv data/fetch_ahead_uv
data\.appends\b                      data/append_uv
data\.donors\b                       datasets/donors_uv
data\.sets\b                         datasets/set_uv datasets/set_life_uv datasets/set_load_uv datasets/set_damage_uv datasets/set_origin_uv datasets/set_claim_uv datasets/set_return_uv datasets/set_report_uv
data\.size_asks\b                    data/size_uv
data\.(versions|changes)->           coherence/data_versions manager/changes
parts

[ -s "$found" ] && bad=1
[ "$bad" = 0 ] && echo "tidy: ${#files[@]} sources, clean"
exit "$bad"
