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

# Where the command begins; nothing while its options are being written.
_dlock_command() {
	local i

	for ((i = 2; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--) echo $((i + 1)); return ;;
		-c | --config | --redis | --path) ((i++)) ;;
		-*) ;;
		*) echo "$i"; return ;;
		esac
	done
}

_dlock() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local command

	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		_dlock_words "$word" "run --help --version"
		return
	fi
	[[ ${COMP_WORDS[1]} == run ]] || return
	command=$(_dlock_command)
	if [[ -n $command ]] && ((COMP_CWORD > command)); then
		_dlock_files "$word"
		return
	fi
	case $before in
	-c | --config | --path) _dlock_files "$word"; return ;;
	--redis) _dlock_words "$word" "redis:// unix://"; return ;;
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

	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-c | --config | --redis | --path | --host | --older | --sort | \
			--token | --warning | --critical | --as | -w | --wait | \
			--interval | --count) ((i++)) ;;
		-*) ;;
		*) echo "${COMP_WORDS[i]}" ;;
		esac
	done
}

_dlockctl() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local filters=" --redis --path --host --here --waiting --older"
	local plain verb any="-c --json --help --version"

	COMPREPLY=()
	mapfile -t plain < <(_dlockctl_plain)
	verb=${plain[0]-}
	if [[ $verb == lock ]] && ((${#plain[@]} > 2)); then
		_dlock_files "$word" # the command's
		return
	fi
	case $before in
	-c | --config | --path) _dlock_files "$word"; return ;;
	--redis) _dlock_words "$word" "redis:// unix://"; return ;;
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

complete -F _dlock dlock
complete -F _dlockctl dlockctl
