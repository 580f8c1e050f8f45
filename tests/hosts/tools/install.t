#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 90
#
# make install over a live system: of the programs that start meanwhile with
# the library preloaded, none is killed and none runs without it.  The control
# is install(1) onto the name itself, which some of them do not survive.  What
# make install brings, make uninstall takes, but for what the user wrote; and
# with a PREFIX in one's home nothing is written elsewhere.
TOP=$(cd "${0%/*}/../../.." && pwd)
# shellcheck source=tests/lib/tap.sh
. "$TOP/tests/lib/tap.sh"
cd "$TOP" || exit 1
dir=$(mktemp -d "${TMPDIR:-/tmp}/dlock-install.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
root=$dir/root
lib=$root/usr/local/lib/dlock/libdlock-preload.so

# `all` is taken to be done: other tests use what it has made.
make_it()
{
	make --no-print-directory -o all "$@" >"$dir/make" 2>&1 ||
		{ diag "make $*: $(tail -5 "$dir/make")"; return 1; }
}

listed()
{
	(cd "$1" && find . ! -type d | sort)
}

# Programs that start, one after the other, until $dir/over: how many there
# were, and of how many ld.so or the shell had something to say.
starts()
{
	local n=0

	while [ ! -e "$dir/over" ]; do
		LD_PRELOAD=$lib /bin/true || echo "status $?"
		n=$((n + 1))
	done 2>>"$dir/said.$1" >>"$dir/said.$1"
	echo "$n" >"$dir/count.$1"
}

# storm COMMAND...: while it runs; STARTED and HIT
storm()
{
	local i

	rm -f "$dir"/over "$dir"/said.* "$dir"/count.*
	for i in 1 2; do
		starts "$i" &
	done
	"$@"
	touch "$dir/over"
	wait
	STARTED=$(cat "$dir"/count.* | awk '{ n += $1 } END { print n }')
	HIT=$(cat "$dir"/said.* | grep -cE 'ERROR: ld.so|^status ')
	note "$*: $HIT of $STARTED programs"
}

# The first that is hit ends it; how many times it took is ROUNDS.
onto_the_name()
{
	local end=$((SECONDS + 20))

	ROUNDS=0
	while [ "$SECONDS" -lt "$end" ] && ! grep -qsE 'ERROR|status' \
		"$dir"/said.*; do
		install -m 755 build/libdlock-preload.so "$lib"
		ROUNDS=$((ROUNDS + 1))
	done
}

# shellcheck disable=SC2317 # by name
again()
{
	local i

	for ((i = 0; i < $1; i++)); do
		make_it install DESTDIR="$root" || return
	done
}

# --- what it brings, what is left ---------------------------------------------

ok 'make install' make_it install DESTDIR="$root"
files=$(listed "$root")
is "$files" './etc/dlock/dlock.conf.sample
./usr/local/bin/dlock
./usr/local/bin/dlockctl
./usr/local/lib/dlock/libdlock-preload.so
./usr/local/lib/tmpfiles.d/dlock.conf
./usr/local/libexec/dlock/dlock-keeper
./usr/local/libexec/dlock/dlock-tls
./usr/local/share/bash-completion/completions/dlock
./usr/local/share/bash-completion/completions/dlockctl
./usr/local/share/man/man1/dlock.1
./usr/local/share/man/man1/dlockctl.1
./usr/local/share/man/man5/dlock.conf.5
./usr/local/share/man/man7/dlock.7
./usr/local/share/zsh/site-functions/_dlockctl' 'the files that it brings'
ok 'the library is as it was built' cmp -s build/libdlock-preload.so "$lib"
is "$(stat -c %a "$lib")" 755 'it may be mapped by all'

# --- a live system ------------------------------------------------------------

storm onto_the_name
at_least "$HIT" 1 'control: install(1) onto the name hits programs'
storm again $((ROUNDS > 15 ? ROUNDS : 15))
is "$HIT" 0 'make install hits none'
at_least "$STARTED" 200 '... of those that started'
is "$(cat "$dir"/said.*)" '' 'nobody says a word'
is "$(listed "$root")" "$files" 'nothing is left of the installing itself'

# --- uninstall ------------------------------------------------------------------

echo "# the user's" >"$root/etc/dlock/dlock.conf"
echo other >"$root/usr/local/bin/other"
ok 'make uninstall' make_it uninstall DESTDIR="$root"
is "$(listed "$root")" './etc/dlock/dlock.conf
./usr/local/bin/other' "what the user wrote is there, nothing of ours"
ok 'once more: nothing to do is no error' make_it uninstall DESTDIR="$root"
rm "$root/etc/dlock/dlock.conf"
make_it install DESTDIR="$root" && make_it uninstall DESTDIR="$root"
is "$(find "$root" -name 'dlock*')" '' 'our directories go with the last file'

# --- in one's home --------------------------------------------------------------

# All but $dir is read-only; so it need not be seen where nobody may look.
# shellcheck disable=SC2016
frozen='mount --bind "$1" "$1" && mount -o remount,bind,ro / && shift && "$@"'
home=$dir/home
in_home()
{
	unshare -m sh -c "$frozen" sh "$dir" make --no-print-directory -o all \
		PREFIX="$home/.local" "$@" \
		>"$dir/make" 2>&1
}
# shellcheck disable=SC2317 # by name
written_elsewhere()
{
	unshare -m sh -c "$frozen" sh "$dir" touch "$TOP/build/touched"
}
if written_elsewhere 2>/dev/null; then
	rm -f build/touched
	fail 'control: elsewhere nothing can be written'
else
	pass 'control: elsewhere nothing can be written'
fi
ok "a PREFIX in one's home: nothing is written elsewhere" in_home install
sample=$home/.local/etc/dlock/dlock.conf.sample
is "$(head -1 "$sample" 2>&1 | cut -d: -f1)" "# $home/.local/etc/dlock/dlock.conf" \
	'its sample names the file that such a build reads'
like "$(cat "$home/.local/share/man/man5/dlock.conf.5" 2>&1)" \
	"Pa $home/.local/etc/dlock/dlock.conf" 'and so does the manual'
ok 'and uninstall takes it back' in_home uninstall
is "$(listed "$home")" '' 'nothing of it is left'

# --- elsewhere --------------------------------------------------------------------

make_it install DESTDIR="$dir/the root" PREFIX=/usr LIBDIR=/usr/lib64/dlock
man=$dir/the\ root/usr/share/man
ok 'the manuals of a package name its files' \
	grep -q 'Pa /usr/lib/tmpfiles.d/dlock.conf' "$man/man5/dlock.conf.5"
ok '... and its LIBDIR' grep -q 'Pa /usr/lib64/dlock ,' "$man/man7/dlock.7"
is "$(grep -rl /usr/local "$man")" '' '... and no others'
# Below a directory that the text has: it is put there once.
below=/usr/local/dlock
make_it install DESTDIR="$dir/below" PREFIX=$below
named=$(grep -rhoE '/(usr/local|etc)/[a-z/.-]*[a-z]' "$dir/below$below/share/man" \
	"$dir/below$below/etc" | sort -u)
is "$(grep -E 'dlock/dlock/|^/etc/dlock' <<<"$named")" '' \
	"PREFIX=$below: the manuals and the sample name no other place"
for file in lib/dlock etc/dlock/dlock.conf.sample lib/tmpfiles.d/dlock.conf; do
	ok "... but $file" grep -qx "$below/$file" <<<"$named"
	ok '... which is there' test -e "$dir/below$below/$file"
done
for odd in '/a b' /a:b '/a 7'; do
	is "$(make_it install DESTDIR="$dir/odd" PREFIX="$odd" 2>"$dir/said"; echo $?)" 1 \
		"PREFIX='$odd' is refused"
	like "$(cat "$dir/said")" "$odd: .*cannot be preloaded" '... with the reason'
done
is "$(find "$dir/odd" 2>/dev/null)" '' '... and nothing is written'

# --- the directory of shadows -----------------------------------------------------

mkdir "$dir/bin"
# in_place: the mode of /run/dlock after an install, and what was said
in_place()
{
	# shellcheck disable=SC2016 # expanded there
	unshare -m sh -c 'mount -t tmpfs none /usr/local &&
		mount -t tmpfs none /run && PATH=$1:$PATH &&
		make --no-print-directory -o all install >"$1/out" 2>"$1/err" &&
		stat -c %a /run/dlock; cat "$1/err"' sh "$dir/bin" 2>&1
}
# As systemd-tmpfiles(8) reads our line.
cat >"$dir/bin/systemd-tmpfiles" <<'END'
#!/bin/sh
[ "$1" = --create ] && grep '^d' "$2" | while read -r _ path mode _; do
	install -d -m "$mode" "$path"
done
END
chmod 755 "$dir/bin/systemd-tmpfiles"
is "$(in_place)" 1777 'the directory of shadows is there at once'
ln -sf /bin/false "$dir/bin/systemd-tmpfiles"
like "$(in_place)" 'install -d -m 1777 /run/dlock' 'or it says how to make it'
done_testing
