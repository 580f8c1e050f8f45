/* SPDX-License-Identifier: MIT */
/*
 * Programs that start another one where the shim is not loaded: by an
 * environment of their own, by a daemon, on another host.  They can be
 * preloaded, and what they start runs unlocked.
 *
 * Only the command itself is looked at.  `flock f sudo job` is right: flock(1)
 * has the lock, and what it starts needs none.
 */
#include "tools/run.h"

#include <getopt.h>
#include <string.h>

#define OWN_ENVIRONMENT                                                        \
	"what it starts has another LD_PRELOAD or none, and locks nothing in " \
	"Redis (write dlock run behind it, before its command)"
#define ELSEWHERE                                                              \
	"what it starts does not run here, and locks nothing in Redis "        \
	"(write dlock run behind it, before its command)"

typedef bool applies_fn(char *const argv[]);

#define VALUE(name)                                                            \
	{                                                                      \
		name, required_argument, NULL, '?'                             \
	}

/*
 * Has it that option, or the operand "-", where getopt_long(3) finds them as the
 * program does?  Of its other options only those that have a value are to be
 * known: `letters` begin with '+' where the options end at the first operand, and
 * else with '-'.  Then argv[optind] is that operand, or NULL.
 */
static bool has_option(char *const argv[], int option, const char *letters,
		       const struct option *longs)
{
	int argc = 0, c;

	while (argv[argc])
		argc++;
	opterr = 0;
	optind = 0; /* from the beginning, of a line that is not dlock's own */
	while ((c = getopt_long(argc, argv, letters, longs, NULL)) != -1)
		if (c == option || (c == 1 && !strcmp(optarg, "-")))
			return true;
	return argv[optind] && !strcmp(argv[optind], "-");
}

/* su(1) and runuser(1) make a new environment for a login only. */
static bool is_login(char *const argv[])
{
	static const struct option longs[] = {
		{ "login", no_argument, NULL, 'l' },
		VALUE("command"),
		VALUE("session-command"),
		VALUE("shell"),
		VALUE("group"),
		VALUE("supp-group"),
		VALUE("whitelist-environment"),
		VALUE("user"),
		{ NULL, 0, NULL, 0 },
	};

	return has_option(argv, 'l', "-lc:s:g:G:w:u:", longs);
}

/* systemd-run(1) --scope starts its command itself. */
static bool is_service(char *const argv[])
{
	static const struct option longs[] = {
		{ "scope", no_argument, NULL, 's' },
		VALUE("unit"),
		VALUE("property"),
		VALUE("description"),
		VALUE("slice"),
		VALUE("uid"),
		VALUE("gid"),
		VALUE("nice"),
		VALUE("setenv"),
		{ NULL, 0, NULL, 0 },
	};

	return !has_option(argv, 's', "+u:p:E:H:M:", longs);
}

/* By env(1), of all or of what is preloaded. */
static bool is_emptied(char *const argv[])
{
	static const struct option longs[] = {
		{ "ignore-environment", no_argument, NULL, 'i' },
		VALUE("unset"),
		VALUE("chdir"),
		VALUE("split-string"),
		VALUE("argv0"),
		{ NULL, 0, NULL, 0 },
	};

	if (has_option(argv, 'i', "+iu:C:S:a:", longs))
		return true;
	for (int i = optind; argv[i] && strchr(argv[i], '='); i++)
		if (!strncmp(argv[i], "LD_PRELOAD=", strlen("LD_PRELOAD=")) &&
		    !strstr(argv[i], "/libdlock-preload.so"))
			return true;
	return false;
}

/* clang-format off */
static const struct {
	const char *name;
	applies_fn *applies; /* NULL: always */
	const char *reason;
} aways[] = {
	{ "sudo", NULL, OWN_ENVIRONMENT },
	{ "doas", NULL, OWN_ENVIRONMENT },
	{ "pkexec", NULL, OWN_ENVIRONMENT },
	{ "su", is_login, OWN_ENVIRONMENT },
	{ "runuser", is_login, OWN_ENVIRONMENT },
	{ "env", is_emptied, OWN_ENVIRONMENT },
	{ "ssh", NULL, ELSEWHERE },
	{ "slogin", NULL, ELSEWHERE },
	{ "rsh", NULL, ELSEWHERE },
	{ "systemd-run", is_service, ELSEWHERE },
	{ "machinectl", NULL, ELSEWHERE },
	{ "docker", NULL, ELSEWHERE },
	{ "podman", NULL, ELSEWHERE },
	{ "kubectl", NULL, ELSEWHERE },
	{ "lxc-attach", NULL, ELSEWHERE },
};
/* clang-format on */

const char *run_away(char *const argv[])
{
	const char *name = basename(argv[0]);

	for (size_t i = 0; i < sizeof(aways) / sizeof(*aways); i++)
		if (!strcmp(name, aways[i].name) &&
		    (!aways[i].applies || aways[i].applies(argv)))
			return aways[i].reason;
	return NULL;
}
