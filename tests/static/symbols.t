#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 60
#
# What is exported is the table, and nothing else; no shim object calls what
# the shim wraps, nor what a guest must not call (L7, STYLE 15).
cd "${0%/*}/../.." || exit 1
. tests/lib/tap.sh

table=$(sed -n 's/^[[:space:]]*X(\([A-Za-z0-9_]*\),.*/\1/p' shim/os/table.h |
	sort -u)
exported=$(nm -D --defined-only build/libdlock-preload.so |
	awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)
ok 'the table names symbols' test "$(wc -l <<<"$table")" -ge 1
is "$exported" "$table" 'the exported symbols are those of the table'

# What they need of glibc is what dlock(7) says of a build on Debian 12 (2.36); a
# newer one has newer names for old functions (__isoc23_strtol).
oldest=$(sed -n 's/^What is built on Debian 12, .* needs glibc \([0-9.]*\) or newer.*/\1/p' \
	config/dlock.7)
newest()
{
	objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -V |
		tail -1
}
here=$(getconf GNU_LIBC_VERSION)
for file in libdlock-preload.so dlock dlockctl dlock-tls; do
	what="$file runs on glibc $oldest and newer, as dlock(7) says"
	if [ "${here#* }" = 2.36 ]; then
		is "$(newest "build/$file")" "$oldest" "$what"
	else
		skip "$what" "$here, and no 2.36"
	fi
done

# undefined OBJECT...: "OBJECT SYMBOL" for each that they call, __printf_chk as
# printf.
undefined()
{
	nm -A -u "$@" | sed -E 's/^([^:]*): .* ([^ ]*)$/\1 \2/
		s/ __(.*)_chk$/ \1/
		s/ __isoc99_/ /' | sort -u
}

# What is banned but for one object and one reason:
#  signals.o sigaction	asks for SA_RESTART (the test below sees to "asks")
#  descriptors.o fflush	fclose() flushes before it releases (L4)
allowed='signals.o sigaction
descriptors.o fflush'

# banned NAME LIST CALLS: none of LIST is among CALLS, as undefined() has them.
banned()
{
	local found

	found=$(awk 'NR == FNR { banned[$1]; next }
		$2 in banned { sub(/.*\//, "", $1); print }' \
		<(echo "$2") - <<<"$3" | grep -vxF "$allowed")
	is "$found" '' "$1"
}

mapfile -t shim < <(find build/obj/shim/entry build/obj/shim/lock \
	build/obj/shim/hold \
	build/obj/shim/lease build/obj/shim/redis build/obj/shim/os \
	build/obj/shim/model -name '*.o')
mapfile -t keeper < <(find build/obj/shim/keeper -name '*.o' 2>/dev/null)
ok 'there are objects' test "${#shim[@]}" -ge 10
mapfile -t config < <(find build/obj/config -name '*.o')
shim_calls=$(undefined "${shim[@]}")

words()
{
	printf '%s\n' "$@"
}

banned 'no shim object calls a symbol that the shim wraps' "$table" \
	"$shim_calls
$(undefined "${config[@]}")"
banned 'none ends the process, or changes its signals' \
	"$(words exit abort __assert_fail __assert signal sigaction \
		sigprocmask sigset raise atexit on_exit)" "$shim_calls"
banned 'none touches what is the process'\''s: PRNG, umask, cwd, locale, ids' \
	"$(words srand srand48 srandom rand random drand48 umask chdir \
		fchdir chroot setlocale setenv putenv unsetenv clearenv \
		setuid setgid seteuid setegid setpgid setsid alarm \
		setitimer setrlimit nice)" "$shim_calls"
banned 'none allocates' \
	"$(words malloc calloc realloc reallocarray free strdup strndup \
		asprintf vasprintf posix_memalign aligned_alloc getline \
		opendir fdopendir scandir getaddrinfo realpath)" "$shim_calls"
banned 'none uses stdio' \
	"$(words printf fprintf dprintf vprintf vfprintf vdprintf sprintf \
		snprintf vsprintf vsnprintf puts fputs fputc putc putchar \
		fwrite fread fopen fdopen fopen64 fflush fgets perror sscanf \
		fscanf scanf stdout stderr stdin)" "$shim_calls"
banned 'none sleeps by a call that a signal handler of the program would see' \
	"$(words sleep usleep system popen syslog openlog)" "$shim_calls"
banned 'none asks what another preloaded library may answer: libfaketime, fakeroot' \
	"$(words clock_gettime gettimeofday time nanosleep clock_nanosleep \
		poll ppoll select pselect getpid getrandom getentropy \
		fstat stat lstat fstatat statx readlink)" "$shim_calls"
banned 'the keeper has no stdio' \
	"$(words printf fprintf puts fopen fdopen fputs perror)" "$(undefined "${keeper[@]}")"

changes=$(grep -nE '\bsigaction\(' shim/*/*.c |
	grep -v 'sigaction([^,]*, NULL,')
is "$changes" '' 'sigaction() asks only'

# The test can see: the tools do call printf and malloc.
mapfile -t tools < <(find build/obj/tools -name '*.o')
ok 'control: the tools call printf or malloc' \
	grep -qE ' (printf|malloc|calloc|realloc|free)$' \
	<(undefined "${tools[@]}")

# What the library needs at run time is what the packages give.
needed=$(readelf -d build/libdlock-preload.so |
	sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort | tr '\n' ' ')
like "$needed" '^(ld-linux[^ ]* )?libc\.so\.6 $' \
	'the library needs libc only'
unlike "$(readelf -d build/libdlock-preload.so)" 'TEXTREL' \
	'and no text relocation'
done_testing
