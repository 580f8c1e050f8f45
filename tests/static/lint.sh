#!/bin/bash
# SPDX-License-Identifier: MIT
#
# make lint: what reads the source for mistakes.  Says what it runs; ends with
# 0 only if none found any.  (The compiler's warnings are errors in `make`.)
set -u
cd "$(dirname "$0")/../.." || exit 1
export LC_ALL=C.UTF-8
shopt -s nullglob

found=0
includes=(-I. -Ishim -Ibuild/gen)
defines=(-D_GNU_SOURCE '-DDLK_PREFIX="/usr/local"'
	'-DDLK_LIBDIR="/usr/local/lib/dlock"'
	'-DDLK_LIBEXECDIR="/usr/local/libexec/dlock"'
	'-DDLK_SYSCONFDIR="/etc"')
mapfile -t sources < <(find config shim tools tests -name '*.c' | sort)
scripts=(.ci/run tests/*/*.sh tests/hosts/*/*.sh tests/*/*.t tests/hosts/*/*.t
	tools/completion.bash tools/*.sh)
pages=(config/*.[1-8] tools/*.[1-8])

# run NAME COUNT COMMAND...
run()
{
	local name=$1 count=$2 output status=0

	shift 2
	output=$("$@" 2>&1) || status=$?
	if [ "$status" = 0 ]; then
		printf '  %-12s %3d files  clean\n' "$name" "$count"
	else
		printf '  %-12s %3d files  FINDINGS\n%s\n' "$name" "$count" \
			"$output"
		found=1
	fi
}

# shellcheck disable=SC2016,SC2317 # run by name; $FLAGS is the inner shell's
tidy()
{
	printf '%s\0' "${sources[@]}" |
		xargs -0 -P "$(nproc)" -n 4 sh -c 'clang-tidy --quiet "$@" -- \
			-std=gnu17 -include os/older.h $FLAGS 2>/dev/null' sh
}
# For the shell within: no blank is in any of them but DLK_*'s quotes.
FLAGS="${includes[*]} ${defines[*]}"
export FLAGS

# The lists of sys/queue.h are macros that it must have seen.
queue=$(echo '#include <sys/queue.h>' | cc -E -x c - |
	sed -n 's/^# 1 "\(.*sys\/queue.h\)".*/\1/p' | head -n 1)
# varFuncNullUB: NULL is a pointer in C with glibc; the sentinel attribute
# checks it.  allocaCalled: execl(3) must be async-signal-safe, so no malloc.
run cppcheck "${#sources[@]}" cppcheck --quiet -j "$(nproc)" --std=c11 \
	--enable=warning,performance,portability --inline-suppr \
	--suppress=varFuncNullUB --suppress=allocaCalled \
	--suppress=missingInclude --suppress=missingIncludeSystem \
	--error-exitcode=1 --template=gcc --include="$queue" "${includes[@]}" \
	"${defines[@]}" "${sources[@]}"
run clang-tidy "${#sources[@]}" tidy
mapfile -t formatted < <(find config shim tools tests -name '*.[ch]' | sort)
run clang-format "${#formatted[@]}" clang-format --dry-run -Werror \
	"${formatted[@]}"
run shellcheck "${#scripts[@]}" shellcheck -x -P SCRIPTDIR "${scripts[@]}"
run mandoc "${#pages[@]}" mandoc -Tlint -W warning "${pages[@]}"
exit "$found"
