/* SPDX-License-Identifier: MIT */
/*
 * Findings, and those of a check in a child: as another user, or where it may
 * hang; see doctor.h.
 *
 * The child sends each finding, as soon as it has it, as its severity and three
 * texts, each with a NUL behind it; what it looks at likewise, as one of severity 0.
 * What came until the patience ended counts.
 */
#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/text.h"
#include "model/timeline.h"
#include "os/sys.h"
#include "tools/common.h"
#include "tools/doctor.h"

enum { PARTS = 4 }; /* of a finding */

static FILE *to_parent; /* of a child */

static void send_text(const char *text)
{
	fwrite(text, 1, strlen(text) + 1, to_parent);
}

static void send_finding(int severity, const char *what, const char *why,
			 const char *remedy)
{
	if (!to_parent)
		return;
	fprintf(to_parent, "%d%c", severity, '\0');
	send_text(what);
	send_text(why);
	send_text(remedy);
	fflush(to_parent);
}

/* Each server of several may show the same. */
static bool is_found(const struct doctor *d, const char *what)
{
	size_t i = 0;

	while (i < d->n && (d->findings[i].check != d->check ||
			    strcmp(d->findings[i].what, what) != 0))
		i++;
	return i < d->n;
}

void doctor_find(struct doctor *d, enum doctor_severity severity,
		 const char *why, const char *remedy, const char *format, ...)
{
	struct doctor_finding *f;
	va_list args;
	char *what;

	va_start(args, format);
	if (vasprintf(&what, format, args) < 0)
		tool_no_memory();
	va_end(args);
	if (is_found(d, what)) {
		free(what);
		return;
	}
	d->findings = tool_grow(d->findings, d->n, &d->room, sizeof(*f));
	f = &d->findings[d->n++];
	*f = (struct doctor_finding){ .severity = severity,
				      .check = d->check,
				      .what = what,
				      .why = tool_copy(why, strlen(why)),
				      .remedy = tool_copy(remedy,
							  strlen(remedy)) };
	send_finding((int)severity, what, why, remedy);
}

void doctor_looks(const char *format, ...)
{
	char what[2 * DLK_PATH_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	send_finding(0, what, "", "");
}

void doctor_forget(struct doctor *d)
{
	for (size_t i = 0; i < d->n; i++) {
		free(d->findings[i].what);
		free(d->findings[i].why);
		free(d->findings[i].remedy);
	}
	free(d->findings);
	d->findings = NULL;
	d->n = d->room = 0;
}

/* --- of a child ----------------------------------------------------------- */

struct heard {
	char *bytes;
	size_t n, room;
};

/* For good: initgroups(3) while that is allowed. */
static int become(const char *user)
{
	struct passwd *p = getpwnam(user);
	uint64_t uid;

	if (!p && dlk_number(user, 10, &uid))
		p = getpwuid((uid_t)uid);
	if (!p)
		return -ENOENT;
	if (p->pw_uid == geteuid())
		return 0;
	if (initgroups(p->pw_name, p->pw_gid) || setgid(p->pw_gid) ||
	    setuid(p->pw_uid))
		return -errno;
	return 0;
}

static _Noreturn void child(struct doctor *d, doctor_fn *fn, const char *user,
			    int fd)
{
	int err = user ? become(user) : 0;

	d->n = d->room = 0;
	d->findings = NULL;
	to_parent = fdopen(fd, "w");
	if (!to_parent)
		tool_no_memory();
	if (err)
		doctor_find(d, DOCTOR_UNKNOWN,
			    "its rights are what programs of it have",
			    err == -ENOENT ? "name a user of this host"
					   : "run doctor as root",
			    "cannot be user %s: %s", user,
			    err == -ENOENT ? "there is none" : strerror(-err));
	else
		fn(d);
	_exit(0);
}

/* All that comes until its end: true, or the patience is over. */
static bool hear(int fd, struct heard *h)
{
	uint64_t until = dlk_now_ns() + DOCTOR_PATIENCE_MS * DLK_MS, now;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n = 1;

	while (n > 0 && (now = dlk_now_ns()) < until) {
		if (poll(&p, 1, (int)((until - now) / DLK_MS) + 1) <= 0)
			continue;
		while (h->room < h->n + 4096)
			h->bytes = tool_grow(h->bytes, h->room, &h->room, 1);
		n = read(fd, h->bytes + h->n, 4096);
		h->n += n > 0 ? (size_t)n : 0;
	}
	return n <= 0;
}

/* The next text; NULL: it is not whole. */
static const char *next(const struct heard *h, size_t *at)
{
	const char *text = h->bytes + *at;
	const char *end = *at < h->n ? memchr(text, '\0', h->n - *at) : NULL;

	if (end)
		*at = (size_t)(end - h->bytes) + 1;
	return end ? text : NULL;
}

/* What it looked at last; or NULL. */
static const char *take(struct doctor *d, const struct heard *h)
{
	const char *looks = NULL;
	const char *part[PARTS];
	size_t at = 0;

	for (;;) {
		for (int i = 0; i < PARTS; i++) {
			part[i] = next(h, &at);
			if (!part[i])
				return looks;
		}
		if (part[0][0] == '0') {
			looks = part[1];
			continue;
		}
		doctor_find(d, (enum doctor_severity)(part[0][0] - '0'),
			    part[2], part[3], "%s", part[1]);
	}
}

void doctor_apart(struct doctor *d, doctor_fn *fn, const char *user)
{
	struct heard h = { 0 };
	int fds[2] = { -1, -1 };
	const char *looks;
	bool done;
	pid_t pid;

	fflush(stdout);
	pid = pipe(fds) ? -1 : fork();
	if (pid < 0) {
		doctor_find(d, DOCTOR_UNKNOWN,
			    "it is looked at by a process of its own, for a "
			    "share may hang",
			    "raise the limit of processes or files (ulimit -u, "
			    "-n), or free memory, and run doctor again",
			    "it was not looked at: %s", strerror(errno));
		close(fds[0]);
		close(fds[1]);
		return;
	}
	if (pid == 0) {
		close(fds[0]);
		child(d, fn, user, fds[1]);
	}
	close(fds[1]);
	done = hear(fds[0], &h);
	close(fds[0]);
	looks = take(d, &h);
	if (!done)
		doctor_find(
			d, DOCTOR_UNKNOWN,
			"what comes after it was not looked at; and a file "
			"server that hangs hangs the programs that use its "
			"files as well",
			"look at the mounts below the prefixes, and at that "
			"of a file that is named (df, dmesg), and run "
			"doctor again",
			"no answer within %d s%s%s", DOCTOR_PATIENCE_MS / 1000,
			looks ? ": " : "", looks ? looks : "");
	free(h.bytes);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, WNOHANG);
}
