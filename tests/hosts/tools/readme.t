#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# The front page: what it tells a new user to do is done here, as it stands, on two
# hosts that have had nothing of dlock; only the address of Redis is another.
TOP=$(cd "${0%/*}/../../.." && pwd)
JOBS=$(readlink -f /var/lock)/jobs
RIG_MNT=$JOBS
made=
[ -d "$JOBS" ] || { mkdir -p "$JOBS" && made=$JOBS; }
. "${0%/*}/../../lib/rig.sh"
. "${0%/*}/../../lib/ctl.sh"

rig_start disks
trap 'rig_cleanup; [ -z "$made" ] || rmdir "$made" 2>/dev/null' EXIT
# One that was started an hour ago, and so grants at once.
redis_kill
LD_PRELOAD=$BIN/old_server.so redis_up
PAGE=$TOP/README.md

# block PATTERN: the first indented block behind the line that fits
block()
{
	awk -v pattern="$1" '
		$0 ~ pattern { on = 1; next }
		on && /^    / { seen = 1; print substr($0, 5); next }
		on && seen { exit }' "$PAGE"
}

# told COMMAND...: the page tells it so
told()
{
	local command=$*

	ran+=("$command")
	grep -qF -- "$command" "$PAGE"
}
ran=()

# `all` is taken to be done, for other tests run what it has made: by another B
# it would be made anew under them.
installed()
{
	on "$1" make -s -C "$TOP" -o all install >"$RIG/install.$1"
}
is_timer()
{
	systemd-analyze calendar "$1" >"$RIG/out" 2>&1
}

# shellcheck disable=SC2016 # the page's own marks
password=$(grep -o '`install -m [^`]*redis.pass`' "$PAGE" | tr -d '`')

# --- a host of its own, and make install -------------------------------------
for h in A B; do
	for dir in usr/local etc; do
		mkdir -p "$RIG/over.$h/$dir" "$RIG/work.$h/$dir"
		on $h mount -t overlay over -o "lowerdir=/$dir" \
			-o "upperdir=$RIG/over.$h/$dir,workdir=$RIG/work.$h/$dir" \
			"/$dir" || rig_die 'no overlay'
	done
	ok "$h: make install" installed $h
	ok "$h: its password" on $h sh -c "echo secret | $password"
	block 'dlock.conf`:$' | sed "s/10\.0\.0\.5:6379/127.0.0.1:$PORT/" \
		>"$RIG/over.$h/etc/dlock/dlock.conf"
	cat >"$RIG/over.$h/usr/local/bin/nightly" <<-END
		#!/bin/sh
		echo $h >>"$RIG/ran"
		read -r _ <"$RIG/cp/go"
	END
	chmod 755 "$RIG/over.$h/usr/local/bin/nightly"
done
rr config set requirepass secret >/dev/null
export REDISCLI_AUTH=secret
ok 'the address of Redis stands in the page (control)' grep -q \
	"127.0.0.1:$PORT" "$RIG/over.A/etc/dlock/dlock.conf"
cp_new go event
unset DLOCK_CONFIG

# started N: so many have begun, by now
started()
{
	[ "$(wc -l <"$RIG/ran")" -ge "$1" ]
}

# both COMMAND...: by host A and host B; how many ran, and how the other ended
both()
{
	local h status

	: >"$RIG/ran"
	outs=0
	for h in A B; do
		{
			status=0
			"$@" $h >/dev/null 2>"$RIG/$h.err" </dev/null || status=$?
			echo "$h $status" >"$RIG/cp/event"
		} &
	done
	# One ends that has not run, or both run.
	until_true 10 one_is_out
	RAN=$(wc -l <"$RIG/ran")
	for ((i = 0; i < RAN; i++)); do
		cp_reach go
	done
	wait
	cp_drain event
	cp_drain go
}
# An end may be heard of before the other one's beginning.
one_is_out()
{
	! cp_wait event 0.05 || outs=$((outs + 1))
	started 2 || [ "$outs" -ge 2 ] || { [ "$outs" = 1 ] && started 1; }
}

# --- cron --------------------------------------------------------------------
line=$(block '^\*\*cron\*\*' | tail -1)
command=$(cut -d' ' -f 7- <<<"$line")
like "$line" '^0 3 \* \* \* root ' 'cron: a line of crontab(5)'
cron_path=$(block '^\*\*cron\*\*' | sed -n 's/^PATH=//p')
by_cron()
{
	on "$1" env -i SHELL=/bin/sh PATH="$cron_path" sh -c "$command"
}
bare_cron()
{
	on "$1" env -i PATH="$cron_path" sh -c "${command/dlock run /}"
}
both bare_cron
is "$RAN" 2 'cron, without dlock: both hosts run it (control)'
both by_cron
is "$RAN" 1 'cron: one host runs it'

# --- systemd -----------------------------------------------------------------
unit=$(block '^\*\*systemd\*\*')
like "$unit" '^\[Service\]' 'systemd: a drop-in'
environment=$(sed -n 's/^Environment=//p' <<<"$unit")
# shellcheck disable=SC2016 # the page's own marks
start=$(tr '\n' ' ' <"$PAGE" | grep -o '`ExecStart=[^`]*`' | tr -d '`')
start=${start#ExecStart=}
by_systemd()
{
	# shellcheck disable=SC2086 # words, as systemd.service(5) splits them
	on "$1" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin \
		"$environment" $start
}
bare_systemd()
{
	# shellcheck disable=SC2086
	on "$1" env -i PATH=/usr/local/bin:/usr/bin $start
}
pre=$(sed -n 's/^ExecStartPre=//p' <<<"$unit")
ok 'after a boot there is no directory, and it makes it' on A unshare -m \
	sh -c "mount -t tmpfs none /run/lock && ! [ -e $JOBS ] &&
		${pre:-false} && [ -d $JOBS ]"
both bare_systemd
is "$RAN" 2 'systemd, without the drop-in: both (control)'
both by_systemd
is "$RAN" 1 'systemd: one host runs it'
if command -v systemd-analyze >/dev/null; then
	ok 'its timer is one' is_timer \
		"$(block 'nightly.timer' | sed -n 's/^OnCalendar=//p')"
else
	skip 'its timer is one' 'no systemd-analyze'
fi

# --- a container ---------------------------------------------------------------
# A stand-in that knows what the page uses: mounts and variables, and nothing else
# of the host's but its programs; under an init.
cat >"$RIG/docker" <<'END'
#!/bin/bash
[ "$1 $2 $3" = 'run --rm --init' ] || exit 64
shift 3
env=(PATH=/usr/local/bin:/usr/bin:/bin) mounts=()
while :; do
	case $1 in
	-v) mounts+=("$2"); shift 2 ;;
	-e) env+=("$2"); shift 2 ;;
	IMAGE) shift; break ;;
	*) exit 64 ;;
	esac
done
# What is not named is not there.
for dir in /usr/local/lib/dlock /usr/local/libexec/dlock /etc/dlock; do
	case " ${mounts[*]} " in
	*" $dir:$dir:ro "*) ;;
	*) mount -t tmpfs none "$dir" ;;
	esac
done
# shellcheck disable=SC2086 # an init and its argument, or none
exec unshare -p -f --mount-proc env -i "${env[@]}" $HOST_INIT "$@"
END
chmod 755 "$RIG/docker"
container=$(block '^\*\*container\*\*')
like "$container" '^docker run .* IMAGE flock -n ' 'container: a command'
# contained COMMAND HOST: by the init of this round
contained()
{
	on "$2" env HOST_INIT="$INIT_WORDS" unshare -m bash -c \
		"docker() { '$RIG/docker' \"\$@\"; }; $1"
}
by_container()
{
	contained "$container" "$1"
}
bare_container()
{
	contained "${container/-e LD_PRELOAD=*.so/}" "$1"
}
INIT_WORDS='tini --'
both bare_container
is "$RAN" 2 'container, without the variable: both (control)'
for INIT_WORDS in 'tini --' 'dumb-init --' ''; do
	both by_container
	is "$RAN" 1 "container under '${INIT_WORDS% --}': one host runs it"
	begun=$(now)
	on B dlock run flock -w 20 /var/lock/jobs/nightly.lock true 2>"$RIG/err"
	in_time $((($(now) - begun) / 1000000)) 5000 \
		'... and its end is heard of: a second, not the ttl'
done

# --- the checks ----------------------------------------------------------------
: >"$RIG/ran"
nobody_has_it()
{
	[ "$(rr exists dlock:/var/lock/jobs/nightly.lock)" = 0 ]
}
ok 'the one before has left' until_true 10 nobody_has_it
by_cron A >/dev/null 2>&1 </dev/null &
ok 'one runs' until_true 10 started 1
file=/var/lock/jobs/nightly.lock
ok 'explain' told "dlockctl explain $file"
like "$(on A dlockctl explain $file)" 'flock key +dlock:/var/lock/jobs/nightly' \
	'... tells the key'
ok 'list' told 'dlockctl list'
like "$(on A dlockctl list)" 'nightly.lock +EX .*flock -n' '... the holder'
ok 'show' told "dlockctl show $file"
like "$(on A dlockctl show $file)" $'held at Redis\nMODE' '... at Redis'
ok 'doctor' told 'dlockctl doctor'
on A dlockctl --json doctor >"$RIG/out" 2>"$RIG/err"
is "$(jq -r '.findings[] | select(.check | IN("privileges", "log") | not) |
	.what' "$RIG/out")" '' '... finds nothing but the server'\''s own user'
cp_reach go
wait
# shellcheck disable=SC2016 # the page's own marks
is "$(grep -o '`dlockctl [a-z]*[^`]*`' "$PAGE" | tr -d '`' | sort -u |
	grep -vxE 'dlockctl (lock|break)' |
	grep -vxF "$(printf '%s\n' "${ran[@]}")")" '' 'each command of the page was run'
done_testing
