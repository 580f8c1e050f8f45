#!/bin/sh
# SPDX-License-Identifier: MIT
#
# make install and make uninstall, for each MODE:FILE:PLACE:
#
#	install.sh put WORD...		FILE is at $DESTDIR/PLACE
#	install.sh remove WORD...	it is there no more
#
#  1. Each file MUST appear whole, by rename(2).  Programs start at any moment,
#     and ld.so maps what it finds under the library's name: a part of it is a
#     SIGBUS, and no file at all is a program that locks nothing.  Who has the
#     old library mapped keeps it.
#  2. What is not ours, a dlock.conf above all, stays.
#
#  3. The words come unquoted from make: a PREFIX with a blank or a colon, whose
#     library could not be preloaded (ld.so(8)), MUST be refused before that.
#
# Manuals and the sample name the directories of this build.
set -eu

# The text of FILE, at $2, as it is installed.  A directory of ours may be below
# the one that it replaces: so each is marked before any has its name.
copy()
{
	case $1 in
	*.[1-8] | *.conf)
		install -m 644 /dev/null "$2"
		sed "s,/etc/dlock,@SYSCONFDIR@/dlock,g
			s,/usr/local/lib/dlock,@LIBDIR@,g
			s,/usr/local,@PREFIX@,g
			s,@SYSCONFDIR@,$SYSCONFDIR,g
			s,@LIBDIR@,$LIBDIR,g
			s,@PREFIX@,$PREFIX,g" "$1" >"$2"
		;;
	*)
		install "$1" "$2"
		;;
	esac
}

# put MODE FILE PLACE
put()
{
	new=$3.new.$$

	install -d "${3%/*}"
	# An empty library after a power cut would be no library.
	if copy "$2" "$new" && chmod "$1" "$new" && sync "$new" &&
	   mv -f "$new" "$3"; then
		echo "  INSTALL $3"
		put_tmpfiles "$3"
	else
		rm -f "$new"
		echo "install: $3 is as it was before" >&2
		exit 1
	fi
}

# What is made at each boot is there at once: or a program of root makes it, for
# root alone (dlock.conf(5), state_dir).  Where systemd looks, and no DESTDIR.
put_tmpfiles()
{
	case $1 in
	/usr/lib/tmpfiles.d/* | /usr/local/lib/tmpfiles.d/*)
		systemd-tmpfiles --create "$1" ||
			echo 'install: do at each boot, which systemd-tmpfiles(8)' \
				'does elsewhere: install -d -m 1777 /run/dlock' >&2
		;;
	esac
}

# remove MODE FILE PLACE
remove()
{
	rm -f "$3"
	# Of the directories, those that were ours alone.
	case ${3%/*} in
	*/dlock)
		[ ! -d "${3%/*}" ] ||
			rmdir --ignore-fail-on-non-empty "${3%/*}"
		;;
	esac
	echo "  REMOVE  $3"
}

what=$1
shift
words=$*
if [ "$what" = remove ]; then
	# Backwards: the library goes while all that it needs is there.
	words=
	for word; do
		words="$word $words"
	done
fi
for word in $words; do
	case ${word#[0-7][0-7][0-7]:} in
	"$word" | *:*:*)
		echo "install: $PREFIX: a library whose path has a blank or a" \
			'colon cannot be preloaded; choose another PREFIX' >&2
		exit 1
		;;
	esac
done
for word in $words; do
	file=${word#*:}
	"$what" "${word%%:*}" "${file%%:*}" "${DESTDIR-}${file#*:}"
done
if [ "$what" = remove ]; then
	echo '  Programs that name this library in LD_PRELOAD run without it from'
	echo '  now on, and lock nothing in Redis.'
fi
