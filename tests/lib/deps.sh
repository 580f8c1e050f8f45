#!/bin/sh
# SPDX-License-Identifier: MIT
#
# make deps: install what a build and the tests need and is not there yet.
#
#	deps.sh build		only what make and make install need
#	deps.sh bench		and what `make bench` needs beyond that
#	deps.sh demo		only what `make demo` needs
#	deps.sh lib32		what `make lib32` needs of amd64 (lib32.sh has the rest)
#	deps.sh package		what `make deb` and `make rpm` need
#
#  1. With everything there it MUST do nothing, and fast: every other target
#     runs it first.
#  2. It MUST say what it installs before it does.
#  3. It MUST NOT start a Redis server: the tests start their own.  Debian's
#     invoke-rc.d starts no service in runlevel 1 (invoke-rc.d(8), RUNLEVEL).
set -eu

# To build, to test, to lint; Debian's names.
build='gcc make binutils libc6-dev libhiredis-dev libconfuse-dev libssl-dev mawk'
tests='libcmocka-dev redis-server redis-tools bindfs fuse3 util-linux
	perl python3 python3-redis procps coreutils jq libcap2-bin fzf
	libfaketime libeatmydata1 libjemalloc2 fakeroot gcc-multilib
	libfuse3-dev spin iproute2 valgrind zsh tini dumb-init openssl
	clang libclang-rt-14-dev nftables'
# The ordinary programs of tests/hosts/programs; with what they need 300 MB, git,
# vim, Ruby and Python's tests more than half of it.
programs='git make rsync moreutils xz-utils zstd ed vim sqlite3 fakeroot sudo
	libcap2-bin bubblewrap openssh-server openssh-client screen tmux gnupg
	socat strace gdb runit daemontools procmail liblockfile-bin logrotate
	stress-ng ruby php-cli tcl lua5.4 lua-posix mksh busybox
	libpython3.11-testsuite'
# Those of them that take record locks; with what they need 80 MB.
records='sqlite3 ctdb stress-ng qemu-utils subversion lmdb-utils python3-lmdb
	tdb-tools python3-tdb moreutils db5.3-util python3-bsddb3 rrdtool'
# The peers of tests/bench, and what plots.
bench='etcd-server etcd-client nodejs gnuplot-nox strace
	python3-hiredis'
lint='cppcheck clang-tidy clang-format mandoc shellcheck universal-ctags'
# What tests/hosts/tools/demo.sh runs: two namespaces and a Redis.
demo='redis-server redis-tools util-linux mount procps'
# What makes packages of it, and the system into which one is installed.
package='debhelper dpkg-dev rpm lintian mmdebstrap'

export LC_ALL=C

wanted="$build $tests $programs $records $lint"
case ${1-} in
build)
	wanted=$build
	;;
lib32)
	wanted="$build gcc-multilib"
	;;
demo)
	wanted="$build $demo"
	;;
package)
	wanted="$build $package"
	;;
bench)
	wanted="$wanted $bench"
	# There is one already where nodejs is not Debian's own.
	command -v npm >/dev/null || wanted="$wanted npm"
	;;
esac
# shellcheck disable=SC2086 # a list of words
set -- $wanted

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	echo "deps: no Debian here; install what these packages hold:" >&2
	printf '  %s\n' "$@" >&2
	exit 1
fi

missing=
for package; do
	state=$(dpkg-query -W -f='${db:Status-Status}' "$package" \
		2>/dev/null) || state=
	[ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

sudo=
if [ "$(id -u)" != 0 ]; then
	sudo=sudo
	if ! command -v sudo >/dev/null; then
		echo "deps: as root:  apt-get install$missing" >&2
		exit 1
	fi
fi
echo "deps: installing$missing"
settings='DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 LC_ALL=C'
# shellcheck disable=SC2086 # lists of words
$sudo env $settings apt-get update -q
# shellcheck disable=SC2086
$sudo env $settings apt-get install -q -y --no-install-recommends $missing
