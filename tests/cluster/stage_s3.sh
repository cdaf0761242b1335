#!/bin/bash
# morsel stage s3://BUCKET/KEY: an object becomes a data set as what lies at any URL does, signed with the user's keys where there are some; what everybody
# may read is fetched again by mounts, and what takes keys is data. Neither signature nor token goes to another host, and none is kept.
set -euo pipefail
# shellcheck source=tests/lib/cluster.sh
. "$(dirname "$0")/../lib/cluster.sh"
# shellcheck source=tests/lib/net.sh
. "$(dirname "$0")/../lib/net.sh"
# shellcheck source=tests/lib/donors.sh
. "$(dirname "$0")/../lib/donors.sh"
cluster_begin stage_s3 "$1"
[ "$(id -u)" = 0 ] || skip "needs root for network namespaces"
start_donors 2
start_mount a io_timeout=20s
a=$mnt
start_mount b io_timeout=20s
b=$mnt
mkdir "$a/set" "$a/list"
policy "$a/set" class=scavenged
policy "$a/list" class=scavenged
mkdir -p "$work/s3/public" "$work/s3/private" "$work/other/public" "$work/home/.aws"
# start_s3 DIR: its URL in $url.
start_s3() {
    python3 "$(dirname "$0")/../lib/s3_server.py" "$work/$1" "$work/$1.port" "$work/$1.requests" "${host_of[here]}" 2>"$work/log/$1" &
    children+=("$!")
    wait_for 60 "the server listens" test -e "$work/$1.port"
    url=http://${host_of[here]}:$(cat "$work/$1.port")
}
start_s3 other
other=$url
start_s3 s3
requests=$work/s3.requests
secret=sEcReT/of+a=user
token=a/token+of=a-session
cat >"$work/s3/.keys" <<END
AKIAUSER $secret
ASIASESSION $secret $token
END
export HOME=$work/home AWS_ENDPOINT_URL=$url
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_PROFILE AWS_REGION AWS_DEFAULT_REGION AWS_ENDPOINT_URL_S3 AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE
with_keys=(env "AWS_ACCESS_KEY_ID=AKIAUSER" "AWS_SECRET_ACCESS_KEY=$secret")
stage=("$bin/morsel" stage)
publish() {
    head -c "$2" /dev/urandom >"$work/s3/.new"
    mv "$work/s3/.new" "$work/s3/$1"
}
hold_at() {
    echo "$1" >"$work/s3/.hold.new"
    mv "$work/s3/.hold.new" "$work/s3/.hold"
}
let_go() {
    rm -f "$work/s3/.hold"
}
# same OBJECT FILE: both mounts have it.
same() {
    cmp "$work/s3/$1" "$a/$2" || fail "$2 is not on this mount what the object $1 is"
    cmp "$work/s3/$1" "$b/$2" || fail "$2 is not on the other mount what the object $1 is"
}
of() {
    morsel datasets --json | jq -r ".datasets[] | select(.inode == $(stat -c %i "$a/$1")) | .$2"
}
stored() {
    [ "$(stat -c %s "$1" 2>/dev/null || echo 0)" -ge "$2" ]
}
# refused WORDS NAME COMMAND...: a line with these words, and no file of that name.
refused() {
    local words=$1 name=$2 code=0
    shift 2
    "$@" >"$work/out" 2>&1 || code=$?
    [ "$code" != 0 ] || fail "$* worked"
    [ "$(wc -l <"$work/out")" = 1 ] || fail "$*: $(cat "$work/out")"
    grep -q -- "$words" "$work/out" || fail "$*: not a word of \"$words\": $(cat "$work/out")"
    [ ! -e "$a/set/$name" ] || fail "$* left a file"
    last_code=$code
}
# result COMMAND...: what --json says of it.
result() {
    "$@" >"$work/out" || fail "$*"
    jq -r '"\(.fetched) \(.was_complete) \(.fetchable) \(.url)"' "$work/out"
}

# ---- What everybody may read: asked for without keys, kept as the URL, and fetched again by mounts.

publish public/open 5000000
[ "$(result "${stage[@]}" --json s3://public/open "$a/set")" = "5000000 false true $url/public/open" ] || fail "a public object: $(cat "$work/out")"
same public/open set/open
[ "$(of set/open state) $(of set/open origin)" = "sealed $url/public/open" ] || fail "it is not sealed, or comes from elsewhere: $(morsel datasets --json)"
! grep -v ANONYMOUS "$requests" || fail "something was signed"
[ "$(result "${stage[@]}" --json s3://public/open "$b/set")" = "0 true true $url/public/open" ] || fail "it is not known again: $(cat "$work/out")"
[ "$(result "${stage[@]}" --json "$url/public/open" "$b/set")" = "0 true true $url/public/open" ] || fail "it is not known again by its URL: $(cat "$work/out")"
[ "$(result "${with_keys[@]}" "${stage[@]}" --json s3://public/open "$b/set")" = "0 true true $url/public/open" ] || fail "it is not known again with keys: $(cat "$work/out")"
morsel evict "$a/set/open" --keep 0 >"$work/out"
[ "$(of set/open morsels_evicted)" -gt 0 ] || fail "a public object is not evicted: $(cat "$work/out")"
start_mount reader io_timeout=60s
cmp "$work/s3/public/open" "$mnt/set/open" || fail "what was evicted does not come back: $(cat "$work/log/mount-reader")"
stop_mount reader
note "public"

# ---- Keys of all sorts.

odd="a b+c%20d&e=f;g'h(ü€)?#~"
publish "public/$odd" 12345
publish "private/$odd" 23456
result "${stage[@]}" --json "s3://public/$odd" "$a/set" >"$work/odd"
same "public/$odd" "set/$odd"
[ "$(cut -d ' ' -f 3 "$work/odd")" = true ] || fail "mounts cannot fetch an odd key: $(cat "$work/out")"
"${with_keys[@]}" "${stage[@]}" --quiet "s3://private/$odd" "$a/set/odd" || fail "an odd key that is signed"
same "private/$odd" set/odd
printf '# two\ns3://private/%s\n\ns3://public/open\n' "$odd" >"$work/list"
"${with_keys[@]}" "${stage[@]}" --quiet --list "$work/list" "$a/list" || fail "a list"
same "private/$odd" "list/$odd"
same public/open list/open
refused "line 1 of the list: s3://B/x names no bucket" B "${stage[@]}" --list - "$a/set" <<<"s3://B/x"
note "odd keys"

# ---- What takes keys: data, without a secret in what is kept.

publish private/mine 3000000
"${with_keys[@]}" "${stage[@]}" s3://private/mine "$a/set" >"$work/out" || fail "a private object"
same private/mine set/mine
grep -q "counts as data.*cannot fetch it again.*403" "$work/out" || fail "it does not say that it is data, and why: $(cat "$work/out")"
[ "$(of set/mine state) $(of set/mine origin)" = "sealed $url/private/mine" ] || fail "it is not sealed, or comes from elsewhere: $(morsel datasets --json)"
! getfattr --absolute-names --only-values -n user.morsel.origin "$a/set/mine" | grep -e AKIA -e "$secret" -e proven || fail "a secret is kept, or that it is proven"
grep -q "^GET /private/mine - -> 200 AKIAUSER host;x-amz-content-sha256;x-amz-date$" "$requests" || fail "it was signed otherwise: $(cat "$requests")"
[ "$(result "${with_keys[@]}" "${stage[@]}" --json s3://private/mine "$b/set")" = "0 true false $url/private/mine" ] || fail "it is not known again: $(cat "$work/out")"
code=0
morsel evict "$a/set/mine" --keep 0 >"$work/out" 2>&1 || code=$?
[ "$code" != 0 ] && [ "$(of set/mine morsels_evicted)" = 0 ] || fail "what takes keys is evicted: $(cat "$work/out")"
note "private"

# ---- What is refused: a line that says what to do, and nothing is left.

publish private/x 1000
publish public/x 1000
refused "not everybody may read it, and there are no keys: set AWS_ACCESS_KEY_ID.*403 AccessDenied" x "${stage[@]}" s3://private/x "$a/set"
[ "$last_code" = 1 ] || fail "what is refused is exit code $last_code"
refused "s3://private/x: the secret key is not the one of the key ID (403 SignatureDoesNotMatch)" x env AWS_ACCESS_KEY_ID=AKIAUSER AWS_SECRET_ACCESS_KEY=wrong "${stage[@]}" s3://private/x "$a/set"
refused "does not know the key ID" x env AWS_ACCESS_KEY_ID=AKIANOBODY "AWS_SECRET_ACCESS_KEY=$secret" "${stage[@]}" s3://private/x "$a/set"
refused "only one is set" x env AWS_ACCESS_KEY_ID=AKIAUSER "${stage[@]}" s3://private/x "$a/set"
[ "$last_code" = 2 ] || fail "half a pair of keys is exit code $last_code"
refused "there is no such object (404 NoSuchKey)" x "${with_keys[@]}" "${stage[@]}" s3://private/nothing "$a/set/x"
refused "no bucket" x "${stage[@]}" s3://P/x "$a/set"
refused "the endpoint h names\|the endpoint h is" x env AWS_ENDPOINT_URL_S3=h "${stage[@]}" s3://public/x "$a/set"
refused "set AWS_REGION=eu-west-1 (301 PermanentRedirect)" x "${stage[@]}" s3://abroad/x "$a/set"
refused "set AWS_REGION=eu-west-1 (301 PermanentRedirect)" x "${with_keys[@]}" "${stage[@]}" s3://abroad/x "$a/set"
refused "elsewhere (301), and not where" x "${stage[@]}" "$url/abroad/x" "$a/set"
note "refused"

# ---- A session, and keys in files.

refused "the session token is not the one of these keys (400 InvalidToken)" x env AWS_ACCESS_KEY_ID=ASIASESSION "AWS_SECRET_ACCESS_KEY=$secret" AWS_SESSION_TOKEN=old "${stage[@]}" s3://private/x "$a/set"
env AWS_ACCESS_KEY_ID=ASIASESSION "AWS_SECRET_ACCESS_KEY=$secret" "AWS_SESSION_TOKEN=$token" "${stage[@]}" --quiet s3://private/x "$a/set" || fail "a session"
same private/x set/x
grep -q "^GET /private/x - -> 200 ASIASESSION host;x-amz-content-sha256;x-amz-date;x-amz-security-token$" "$requests" || fail "the token was not signed: $(cat "$requests")"
rm "$a/set/x"
cat >"$HOME/.aws/credentials" <<END
[default]
aws_access_key_id = ASIASESSION
aws_secret_access_key = $secret
aws_session_token = $token
[user]
aws_access_key_id=AKIAUSER
aws_secret_access_key=$secret
END
"${stage[@]}" --quiet s3://private/x "$a/set" || fail "keys of a file"
rm "$a/set/x"
: >"$requests"
AWS_PROFILE=user "${stage[@]}" --quiet s3://private/x "$a/set" || fail "keys of a profile"
rm "$a/set/x"
grep -q "200 AKIAUSER" "$requests" || fail "the keys of the profile were not taken: $(cat "$requests")"
refused "profile nobody" x env AWS_PROFILE=nobody "${stage[@]}" s3://private/x "$a/set"
printf '[default]\nregion = eu-west-1\n' >"$HOME/.aws/config"
refused "(400 AuthorizationHeaderMalformed)" x "${stage[@]}" s3://private/x "$a/set"
rm "$HOME/.aws/config" "$HOME/.aws/credentials"
note "session, files"

# ---- Who signs is not sent to another host.

cp "$work/s3/public/x" "$work/other/public/x"
echo "$other/public" >"$work/s3/.moved"
refused "elsewhere.*307" x "${with_keys[@]}" "${stage[@]}" s3://moved/x "$a/set"
[ ! -e "$work/other.requests" ] || fail "another host was asked: $(cat "$work/other.requests")"
"${stage[@]}" --quiet s3://moved/x "$a/set" || fail "without keys it is not followed"
same public/x set/x
! grep -v ANONYMOUS "$work/other.requests" || fail "another host has got a signature"
note "moved"

# ---- Interrupted, and gone on with; the object has become another one.

publish private/killed 12345678
hold_at 7000000
"${with_keys[@]}" "${stage[@]}" --quiet s3://private/killed "$a/set" &
pid=$!
wait_for 60 "the first bytes are there" stored "$b/set/killed" 5000000
kill -KILL "$pid"
wait "$pid" || true
let_go
"${with_keys[@]}" "${stage[@]}" --json s3://private/killed "$b/set" >"$work/out" || fail "it does not go on"
same private/killed set/killed
at=$(jq .resumed_at "$work/out")
[ "$at" -ge 4194304 ] || fail "it was not resumed: $(cat "$work/out")"
grep -q "^GET /private/killed bytes=$at- -> 206 AKIAUSER host;if-range;" "$requests" || fail "the rest was not asked for on condition: $(cat "$requests")"
for size in 12345678 3000000; do
    publish private/changed 12345678
    hold_at 6291456
    "${with_keys[@]}" "${stage[@]}" --quiet s3://private/changed "$a/set" &
    pid=$!
    wait_for 60 "the first bytes are there" stored "$b/set/changed" 6291456
    kill -KILL "$pid"
    wait "$pid" || true
    publish private/changed "$size"
    let_go
    "${with_keys[@]}" "${stage[@]}" --quiet s3://private/changed "$b/set" || fail "the object has changed ($size), and stage fails"
    same private/changed set/changed
    rm "$a/set/changed"
done
publish private/killed 12345678
refused "has changed since" nobody "${with_keys[@]}" "${stage[@]}" s3://private/killed "$a/set"
"${with_keys[@]}" "${stage[@]}" --fresh --quiet s3://private/killed "$a/set"
same private/killed set/killed
note "changed"
fsck_clean
cluster_end
