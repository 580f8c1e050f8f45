# SPDX-License-Identifier: MIT
# bash completion for dlock(1) and dlockctl(1)

_dlock_files() {
	local IFS=$'\n'

	compopt -o filenames 2>/dev/null
	mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

_dlock_words() {
	mapfile -t COMPREPLY < <(compgen -W "$2" -- "$1")
}

# The words as they stand on the line, in $words, and in $cword which of them the
# cursor is in: bash has cut them at each ':', if that is in COMP_WORDBREAKS.
_dlock_rejoin() {
	local i piece last='' rest=${COMP_LINE-}

	words=()
	for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
		piece=${COMP_WORDS[i]}
		if ((i)) && [[ $rest != [[:blank:]]* ]] &&
			[[ $piece == :* || $last == *: ]]; then
			words[-1]+=$piece
		else
			words+=("$piece")
		fi
		((i == COMP_CWORD)) && cword=$((${#words[@]} - 1))
		rest=${rest#"${rest%%[![:blank:]]*}"}
		rest=${rest#"$piece"}
		last=$piece
	done
}

# And what it puts in the place of the last piece alone.
_dlock_cut() {
	[[ $COMP_WORDBREAKS != *:* ]] ||
		COMPREPLY=("${COMPREPLY[@]#"${1%"${1##*:}"}"}")
}

# Where the command begins; nothing while its options are being written.
_dlock_command() {
	local i

	for ((i = 2; i < cword; i++)); do
		case ${words[i]} in
		--) echo $((i + 1)); return ;;
		-c | --config | --redis | --path) ((i++)) ;;
		-*) ;;
		*) echo "$i"; return ;;
		esac
	done
}

_dlock_offer() {
	local word=$1 before=$2 command

	if ((cword == 1)); then
		_dlock_words "$word" "run --help --version"
		return
	fi
	[[ ${words[1]} == run ]] || return
	command=$(_dlock_command)
	if [[ -n $command ]] && ((cword > command)); then
		_dlock_files "$word"
		return
	fi
	case $before in
	-c | --config | --path) _dlock_files "$word"; return ;;
	--redis) _dlock_words "$word" "redis:// rediss:// unix://"; return ;;
	esac
	if [[ $word == -* && -z $command ]]; then
		_dlock_words "$word" "-c --redis --path --allow-unlocked --"
	else
		mapfile -t COMPREPLY < <(compgen -c -- "$word")
	fi
}

# What is written already and no option: the verb, what it is about, a command.
_dlockctl_plain() {
	local i

	for ((i = 1; i < cword; i++)); do
		case ${words[i]} in
		-c | --config | --redis | --path | --host | --older | --sort | \
			--token | --warning | --critical | --as | -w | --wait | \
			--interval | --count) ((i++)) ;;
		-*) ;;
		*) echo "${words[i]}" ;;
		esac
	done
}

_dlockctl_offer() {
	local word=$1 before=$2
	local filters=" --redis --path --host --here --waiting --older"
	local plain verb any="-c --json --help --version"

	mapfile -t plain < <(_dlockctl_plain)
	verb=${plain[0]-}
	if [[ $verb == lock ]] && ((${#plain[@]} > 2)); then
		_dlock_files "$word" # the command's
		return
	fi
	case $before in
	-c | --config | --path) _dlock_files "$word"; return ;;
	--redis) _dlock_words "$word" "redis:// rediss:// unix://"; return ;;
	--sort) _dlock_words "$word" "path host held ttl waiters"; return ;;
	--as) mapfile -t COMPREPLY < <(compgen -u -- "$word"); return ;;
	--host | --older | --token | --warning | --critical | -w | --wait | \
		--interval | --count) return ;;
	esac
	case $verb in
	list) any+="$filters --sort" ;;
	watch) any+="$filters --sort --interval --count" ;;
	lock) any+=" --redis --nonblock --wait --shared" ;;
	break) any+=" --redis --token --yes" ;;
	check) any+="$filters --warning --critical" ;;
	stats) any+="$filters --prometheus" ;;
	doctor) any+=" --as" ;;
	'') any+=" --redis" ;;
	esac
	if [[ $word == -* ]]; then
		_dlock_words "$word" "$any"
	elif [[ -z $verb ]]; then
		_dlock_words "$word" "list show watch history lock break check \
			stats doctor explain help"
	elif [[ $verb == lock ]] && ((${#plain[@]} == 2)); then
		mapfile -t COMPREPLY < <(compgen -c -- "$word")
	elif [[ " show history lock break explain " == *" $verb "* ]]; then
		_dlock_files "$word"
	fi
}

# _dlock_complete FUNCTION: what it offers for the word, and the one before it
_dlock_complete() {
	local words cword=0

	COMPREPLY=()
	_dlock_rejoin
	"$1" "${words[cword]}" "${words[cword - 1]}"
	_dlock_cut "${words[cword]}"
}

_dlock() {
	_dlock_complete _dlock_offer
}

_dlockctl() {
	_dlock_complete _dlockctl_offer
}

complete -F _dlock dlock
complete -F _dlockctl dlockctl
