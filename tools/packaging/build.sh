#!/bin/sh
# SPDX-License-Identifier: MIT
#
# make deb, make rpm: a package of this tree, in build/package.
#
#	build.sh deb|rpm
#
# The sources are copied, with debian/ beside them, for that is where the
# package's tools look; the tree itself stays as it is.  A build of one's own
# user, without root (Rules-Requires-Root: no).
set -eu
cd "$(dirname "$0")/../.."

what=$1
version=$(sed -n 's/^#define DLK_VERSION "\(.*\)"/\1/p' tools/common.h)
out=$PWD/build/package
tree=$out/dlock-$version

rm -rf "$tree"
mkdir -p "$tree"
tar -c --exclude=./build --exclude=./build32 --exclude='./build-*' --exclude=./.git . |
	tar -x -C "$tree"

case $what in
deb)
	cp -r tools/packaging/debian "$tree/debian"
	(cd "$tree" && dpkg-buildpackage -b -us -uc)
	;;
rpm)
	top=$out/rpm
	mkdir -p "$top/SOURCES"
	tar -cz -C "$out" -f "$top/SOURCES/dlock-$version.tar.gz" \
		"dlock-$version"
	# Where rpm is a guest, its database does not know what is installed.
	nodeps=
	[ -e /etc/redhat-release ] || nodeps=--nodeps
	rpmbuild -bb $nodeps --define "_topdir $top" \
		--define "dlock_version $version" tools/packaging/dlock.spec
	find "$top/RPMS" -name '*.rpm' -exec cp {} "$out" \;
	;;
*)
	echo "usage: build.sh deb|rpm" >&2
	exit 64
	;;
esac
rm -rf "$tree"
ls "$out"/*."$what"
