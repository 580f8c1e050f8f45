#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 30
#
# bash and zsh completion: they offer every verb of dlockctl, and of each verb the
# options that the verb takes, all of them and no others.
. "${0%/*}/../../lib/tap.sh"
TOP=$(cd "${0%/*}/../../.." && pwd)
CTL=$TOP/build/dlockctl
# shellcheck source=tools/completion.bash
. "$TOP/tools/completion.bash"
unset DLOCK_CONFIG

# offered WORD...: for the last of them
offered()
{
	COMP_WORDS=(dlockctl "$@")
	COMP_CWORD=$#
	_dlockctl
	printf '%s\n' "${COMPREPLY[@]}" | sort
}

# taken VERB: the options of it, of all that the program knows
taken()
{
	local option

	for option in $options; do
		! "$CTL" -c /dev/null "$1" "$option" x 2>&1 </dev/null |
			grep -q "is no option of\|no such option" &&
			echo "$option"
	done | sort
}

verbs=$("$CTL" help | sed -n 's/^  \([a-z]\{2,\}\)\( .*\)\?$/\1/p')
options=$(sed -n 's/^\t\[OPT_.*{ "\([a-z]*\)".*/--\1/p' \
	"$TOP/tools/arguments.c" | grep -v -- '--config')
ok 'there are verbs and options' test "$(wc -w <<<"$verbs $options")" -ge 10
is "$(offered '')" "$(printf '%s\nhelp\n' "$verbs" | sort)" 'every verb'
is "$(offered li)" list 'one that is begun'
for verb in $verbs; do
	is "$(offered "$verb" -- | grep -vx -- -c)" "$(taken "$verb")" \
		"the options of $verb"
done
is "$(offered list --sort '')" $'held\nhost\npath\nttl\nwaiters' \
	'the columns of --sort'
is "$(offered -c /x list --wai)" --waiting 'behind a general option'
is "$(offered lock KEY --sha)" --shared 'an option between key and command'
is "$(offered lock KEY unshar | sort -u | grep -x unshare)" unshare "lock's command"
is "$(offered lock KEY rsync --)" '' "no option of ours is one of the command's"

# --- bash: words that it cuts at a colon ---
# typed LINE: what is offered at its end, where its words are cut as bash cuts them
typed()
{
	local word

	COMP_LINE=$1
	COMP_WORDS=()
	for word in ${1// /$'\n'}; do
		mapfile -t -O "${#COMP_WORDS[@]}" COMP_WORDS < <(
			grep -oE ':+|[^:]+' <<<"$word")
	done
	[[ $1 != *' ' ]] || COMP_WORDS+=('')
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	"_${1%% *}"
	printf '%s\n' "${COMPREPLY[@]}" | sort
}
is "$(typed 'dlockctl --redis redis://h:6379/0 li')" list \
	'a verb behind the URL of a server'
is "$(typed 'dlockctl lock --redis redis://h:1 KEY --sha')" --shared \
	'... an option'
is "$(typed 'dlock run --redis redis://h:6379/0 --allow')" --allow-unlocked \
	'... one of dlock run'
is "$(typed 'dlockctl --redis r')" $'redis://\nrediss://' 'a URL is begun'
is "$(typed 'dlock run --redis ')" $'redis://\nrediss://\nunix://' '... or not'
is "$(typed 'dlockctl --redis redis:')" // 'in the place of what stands behind the colon'
dir=$(mktemp -d) || exit 1
touch "$dir/a:bc"
is "$(typed "dlockctl show $dir/a:b")" bc '... and of a file'
rm -r "$dir"

# --- zsh ----------------------------------------------------------------------

# in_zsh SCRIPT: beside its completion
in_zsh()
{
	zsh -f -c "source '$TOP/tools/completion.zsh'; $1"
}
is "$(head -1 "$TOP/tools/completion.zsh")" '#compdef dlockctl dlock' \
	'zsh: compinit(1) finds it'
# shellcheck disable=SC2016 # zsh's
is "$(in_zsh 'compadd() { shift; print -rl -- "$@"; }
	_arguments() { state=verb; }
	words=(dlockctl ""); CURRENT=2; _dlockctl' | sort)" \
	"$(printf '%s\nhelp\n' "$verbs" | sort)" 'zsh: every verb'
for verb in $verbs; do
	# shellcheck disable=SC2016 # zsh's
	is "$(in_zsh '_arguments() { print -rl -- ${${(M)@:#--*}%%:*}; }
		words=(dlockctl '"$verb"' ""); CURRENT=3; _dlockctl' | sort |
		grep -vx -- --config)" "$(taken "$verb")" \
		"zsh: the options of $verb"
done
# shellcheck disable=SC2016 # zsh's
is "$(in_zsh 'compadd() { shift; print -rl -- "$@"; }
	words=(dlock ""); CURRENT=2; _dlock')" $'run\n--help\n--version' \
	'zsh: dlock'
done_testing
