/* SPDX-License-Identifier: MIT */
/* The directories of shadows; see shadows.h. */
#include "tools/shadows.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "config/config.h"
#include "tools/processes.h"

/* base/UID, which need not be entered to know its device, with `below` in it. */
static int each_in(const char *base, const char *below, shadows_fn *fn,
		   void *arg)
{
	char dir[DLK_STATE_DIR_MAX + NAME_MAX + 10];
	DIR *d = opendir(base);
	int answer = d || errno == ENOENT ? 0 : -1;
	const char *name;
	struct stat st;

	while (!answer && (name = names_next(&d))) {
		snprintf(dir, sizeof(dir), "%s/%s", base, name);
		if (name[0] == '.' || stat(dir, &st))
			continue;
		snprintf(dir, sizeof(dir), "%s/%s%s", base, name, below);
		answer = fn(arg, dir, st.st_dev);
	}
	if (d)
		closedir(d);
	return answer;
}

int shadows_each(const char *state_dir, shadows_fn *fn, void *arg)
{
	int shared = each_in(state_dir, "", fn, arg);
	int own = shared > 0 ? 0 : each_in("/run/user", "/dlock", fn, arg);

	return own ?: shared;
}
