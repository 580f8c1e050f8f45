# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# Who calls whom, by the objects' symbols: what a file defines and another one
# lacks is an arrow, functions and data alike.  What a header inlines, and what
# is called by a pointer, is none; nor is a name of libc's that the shim exports
# (shim/os/table.h), for elsewhere libc's own is meant.

# objects: those of the sources that there are, not of what was removed since.
objects()
{
	local source object

	for source in shim/*/*.c config/*.c tools/*.c; do
		object=build/obj/${source%.c}.o
		if [ ! -e "$object" ]; then
			echo "no $object: not built" >&2
			return 1
		fi
		echo "$object"
	done
}

# arrows: a line each, "FROM TO SYMBOL", files as ROOM/NAME.
arrows()
{
	local all exported

	all=$(objects) || return 1
	exported=$(sed -n 's/^[[:space:]]*X(\([A-Za-z0-9_]*\),.*/\1/p' \
		shim/os/table.h)
	# shellcheck disable=SC2086 # no blank is in any of them
	nm -A $all | awk -v exported="$exported" '
		BEGIN {
			n = split(exported, list)
			for (i = 1; i <= n; i++)
				libc[list[i]] = 1
		}
		{
			file = $1
			sub(/:.*/, "", file)
			sub(/^build\/obj\//, "", file)
			sub(/^shim\//, "", file)
			sub(/\.o$/, "", file)
			name = $NF
			kind = $(NF - 1)
		}
		kind == "U" { lacks[file, name] = 1; next }
		# (Each program has a main().)
		kind ~ /^[A-Z]$/ && name != "main" && !(name in libc) {
			defines[name] = file
		}
		END {
			for (pair in lacks) {
				split(pair, p, SUBSEP)
				if (p[2] in defines)
					print p[1], defines[p[2]], p[2]
			}
		}' | sort
}

# Which rooms each room may call, beside itself.
below='model
os	model
config	os model
redis	config os model
lease	redis config os model
hold	lease redis config os model
lock	hold lease redis config os model
entry	lock hold lease redis config os model
keeper	lease redis config os model
tls	os model
tools	lease redis config os model'

# upward: "up FROM TO" of each arrow that no rule allows.
upward()
{
	awk -v below="$below" '
		BEGIN {
			n = split(below, list, "\n")
			for (i = 1; i <= n; i++) {
				m = split(list[i], words)
				for (j = 1; j <= m; j++)
					may[words[1], words[j]] = 1
			}
		}
		{
			split($1, from, "/")
			split($2, to, "/")
			if (!((from[1], to[1]) in may) && !said[$1, $2]++)
				print "up", $1, $2
		}' | sort
}

# rooms_without_a_rule: those of the arrows of which `below` says nothing.
rooms_without_a_rule()
{
	awk -v below="$below" '
		BEGIN {
			n = split(below, list, "\n")
			for (i = 1; i <= n; i++) {
				split(list[i], words)
				known[words[1]] = 1
			}
		}
		{
			split($1, from, "/")
			if (!(from[1] in known) && !said[from[1]]++)
				print from[1]
		}'
}

# pairs: of files that call each other, "A B", A before B.
pairs()
{
	awk '{ calls[$1, $2] = 1 }
		END {
			for (pair in calls) {
				split(pair, p, SUBSEP)
				if (p[1] < p[2] && (p[2], p[1]) in calls)
					print p[1], p[2]
			}
		}' | sort
}

# cycle: the files of the largest set in which each one leads to each other.
cycle()
{
	awk '
		{ leads[$1, $2] = 1; files[$1]; files[$2] }
		END {
			for (k in files)
				for (i in files)
					if ((i, k) in leads)
						for (j in files)
							if ((k, j) in leads)
								leads[i, j] = 1
			for (i in files) {
				n = 0
				set = ""
				for (j in files)
					if ((i, j) in leads && (j, i) in leads) {
						n++
						set = set j "\n"
					}
				if (n > most) {
					most = n
					largest = set
				}
			}
			printf "%s", largest
		}' | sort
}

# above_the_seam: the arrows to redis/ from where only a store is known.
above_the_seam()
{
	grep -E '^(lock|hold|entry)/[a-z_]+ redis/'
}
