#compdef dlockctl dlock
# SPDX-License-Identifier: MIT
# zsh completion for dlock(1) and dlockctl(1)

# The options of each verb; those of all stand at the end.
typeset -gA _dlockctl_takes
_dlockctl_takes=(
	list 'redis path host here waiting older sort'
	show ''
	watch 'redis path host here waiting older sort interval count'
	history ''
	lock 'redis nonblock wait shared'
	break 'redis token yes'
	check 'redis path host here waiting older warning critical'
	stats 'redis path host here waiting older prometheus'
	doctor 'as'
	explain ''
	help ''
)

# What comes behind an option: nothing, or a message and an action.
typeset -gA _dlockctl_values
_dlockctl_values=(
	config ':configuration:_files'
	redis ':URL:(redis\:// rediss\:// unix\://)'
	path ':path or pattern:_files'
	host ':host name or pattern:'
	older ':time:(90s 5m 2h)'
	sort ':column:(path host held ttl waiters)'
	interval ':time:(2s 10s)'
	count ':number:'
	wait ':time:(10s 5m)'
	token ':token:'
	warning ':limits:(held= waiters=)'
	critical ':limits:(held= waiters=)'
	as ':user:_users'
)

_dlockctl_options()
{
	local option

	reply=()
	for option in config json help version ${=_dlockctl_takes[$1]}; do
		reply+=("--$option${_dlockctl_values[$option]}")
	done
}

_dlockctl()
{
	local verb context state state_descr line
	local -a reply
	typeset -A opt_args

	verb=${words[(r)(${(kj:|:)~_dlockctl_takes})]}
	_dlockctl_options "$verb"
	if [[ -z $verb ]]; then
		_arguments -S $reply '--redis:URL:' ': :->verb' '*: :'
		[[ $state != verb ]] || compadd -- ${(k)_dlockctl_takes}
		return
	fi
	case $verb in
	show | history | break | explain)
		_arguments -S $reply ':verb:' ':path:_files' ;;
	lock)
		_arguments $reply ':verb:' ':key or path:_files' \
			'*::command:_normal' ;;
	*)
		_arguments -S $reply ':verb:' ;;
	esac
}

_dlock()
{
	if ((CURRENT == 2)); then
		compadd -- run --help --version
		return
	fi
	[[ ${words[2]} == run ]] || return
	shift words
	((CURRENT--))
	_arguments '(-c --config)'{-c,--config}':configuration:_files' \
		'--redis:URL:(redis\:// rediss\:// unix\://)' \
		'*--path:path:_files' '--allow-unlocked' '*::command:_normal'
}

case ${service-} in
dlockctl) _dlockctl "$@" ;;
dlock) _dlock "$@" ;;
esac
