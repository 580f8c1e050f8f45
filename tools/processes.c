/* SPDX-License-Identifier: MIT */
/* Reading /proc; see processes.h. */
#include "tools/processes.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "model/text.h"
#include "model/timeline.h"

const char *names_next(DIR **d)
{
	const struct dirent *e = *d ? readdir(*d) : NULL;

	if (e)
		return e->d_name;
	if (*d)
		closedir(*d);
	*d = NULL;
	return NULL;
}

unsigned proc_next(DIR **d)
{
	const char *name;
	uint64_t pid;

	while ((name = names_next(d)))
		if (dlk_number(name, 10, &pid))
			return (unsigned)pid;
	return 0;
}

const char *proc_file(unsigned pid, const char *name)
{
	static char path[DLK_NUMBERED_MAX + 32];

	snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
	return path;
}

bool proc_command(unsigned pid, char *name, size_t size)
{
	ssize_t n = dlk_slurp(proc_file(pid, "comm"), name, size);

	if (n > 0)
		name[strcspn(name, "\n")] = '\0';
	return n > 0;
}

/* proc(5): the words behind the name, which may hold anything, from the third on. */
uint64_t proc_began_ns(unsigned pid)
{
	enum { FIRST = 3, START_TIME = 22 };
	const uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
	char text[1024];
	ssize_t n = dlk_slurp(proc_file(pid, "stat"), text, sizeof(text));
	const char *word = n > 0 ? strrchr(text, ')') : NULL;
	uint64_t ticks;

	for (int i = FIRST; word && i <= START_TIME; i++) {
		word = strchr(word, ' ');
		word = word ? word + 1 : NULL;
	}
	if (!word || !dlk_number(word, 10, &ticks))
		return 0;
	return ticks * 1000 / hz * DLK_MS;
}

void proc_each_fdinfo(unsigned pid, dlk_line_fn *fn, void *arg)
{
	DIR *d = opendir(proc_file(pid, "fdinfo"));
	const char *fd;
	char name[64];

	while ((fd = names_next(&d))) {
		snprintf(name, sizeof(name), "/proc/%u/fdinfo/%.20s", pid, fd);
		dlk_each_line(name, fn, arg);
	}
}

void proc_line(unsigned pid, char *line, size_t size)
{
	ssize_t n = dlk_slurp(proc_file(pid, "cmdline"), line, size);

	for (ssize_t i = 0; i + 1 < n; i++)
		if (!line[i])
			line[i] = ' ';
}
