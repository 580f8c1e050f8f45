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

#include <string.h>

#define OWN_ENVIRONMENT                                                        \
	"what it starts has no LD_PRELOAD, and locks nothing in Redis (write " \
	"dlock run behind it, before its command)"
#define ELSEWHERE                                                              \
	"what it starts does not run here, and locks nothing in Redis "        \
	"(write dlock run behind it, before its command)"

typedef bool applies_fn(char *const argv[]);

/* Is it the long option, or the beginning of it that getopt_long(3) takes? */
static bool is_word(const char *arg, const char *option)
{
	size_t len = strlen(arg);

	return len > 2 && !strncmp(arg, option, len);
}

/*
 * su(1) and runuser(1) make a new environment for a login only: "-", -l,
 * --login.  They take options behind operands too (getopt_long(3)).
 */
static bool is_login(char *const argv[])
{
	static const char with_value[] = "cCsgGuTw";

	for (size_t i = 1; argv[i] && strcmp(argv[i], "--") != 0; i++) {
		const char *p = argv[i];

		if (!strcmp(p, "-") || is_word(p, "--login"))
			return true;
		if (p[0] != '-' || p[1] == '-')
			continue;
		while (*++p && !strchr(with_value, *p))
			if (*p == 'l')
				return true;
		/* The value of the last letter is the next word. */
		if (*p && !p[1] && argv[i + 1])
			i++;
	}
	return false;
}

/* systemd-run(1) --scope starts its command itself. */
static bool is_service(char *const argv[])
{
	for (size_t i = 1; argv[i] && argv[i][0] == '-'; i++)
		if (!strcmp(argv[i], "--scope"))
			return false;
	return true;
}

static bool is_emptied(char *const argv[])
{
	return argv[1] && (!strcmp(argv[1], "-") || !strcmp(argv[1], "-i") ||
			   !strcmp(argv[1], "--ignore-environment"));
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
