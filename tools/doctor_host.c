/* SPDX-License-Identifier: MIT */
/* What the library needs of this host; see doctor.h. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "model/text.h"
#include "os/log.h"
#include "os/sys.h"
#include "tools/common.h"
#include "tools/doctor.h"
#include "tools/processes.h"

/* dlock(7), ASSUMPTIONS. */
enum { KERNEL_MAJOR = 5, KERNEL_MINOR = 11 };

#define GETENT "/usr/bin/getent"

/* "6.1.0-13-amd64"; what cannot be read is taken for new. */
static bool is_new_enough(const char *release)
{
	uint64_t major, minor;
	const char *rest = dlk_number(release, 10, &major);

	if (!rest || *rest != '.' || !dlk_number(rest + 1, 10, &minor))
		return true;
	return major > KERNEL_MAJOR ||
	       (major == KERNEL_MAJOR && minor >= KERNEL_MINOR);
}

void doctor_kernel(struct doctor *d)
{
	struct utsname u;

	if (uname(&u) || is_new_enough(u.release))
		return;
	doctor_find(d, DOCTOR_CRITICAL,
		    "the library asks it for what it does not have",
		    "a kernel of Linux 5.11 or newer", "the kernel is Linux %s",
		    u.release);
}

/* --- /proc ---------------------------------------------------------------- */

static bool hides_processes(void)
{
	struct stat st;

	return stat("/proc/1", &st) != 0;
}

void doctor_proc(struct doctor *d)
{
	char text[64];

	if (dlk_slurp("/proc/thread-self/fdinfo/0", text, sizeof(text)) < 0 ||
	    access("/proc/locks", R_OK)) {
		doctor_find(d, DOCTOR_CRITICAL,
			    "without it no rule is known of a file, and locks "
			    "fail with ENOLCK",
			    "mount -t proc proc /proc, in chroots and "
			    "containers too",
			    "/proc does not show descriptors and locks");
		return;
	}
	if (hides_processes())
		doctor_find(d, DOCTOR_WARNING,
			    "who holds a lock in the kernel, and whether that "
			    "program has the library, cannot be told",
			    "run doctor as root, or mount /proc without "
			    "hidepid",
			    "/proc hides other users' processes");
}

/* --- process 1 ------------------------------------------------------------ */

/* The first pid namespace: PROC_PID_INIT_INO. */
static bool in_container(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino != 0xEFFFFFFC;
}

/* Those that end with the one child that they start, and shells. */
static bool ends_with_child(const char *command)
{
	static const char *const names[] = {
		"tini", "dumb-init", "docker-init", "catatonit", "podman-init",
		"sh",   "bash",      "dash",        "busybox",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(command, names[i]))
			return true;
	return false;
}

void doctor_init(struct doctor *d)
{
	char command[32];

	if (!proc_command(1, command, sizeof(command)) || !in_container() ||
	    !ends_with_child(command))
		return;
	doctor_find(d, DOCTOR_WARNING,
		    "its end is the container's, and kills the keepers: what "
		    "its last program held is free one second after it exits, "
		    "and after the ttl if it is killed",
		    "start the program under an init that stays until the "
		    "keepers have ended, or give its rules a short ttl "
		    "(dlock(7), Lost leases)",
		    "process 1 of this container is %s, which ends with its "
		    "child",
		    command);
}

/* --- names ---------------------------------------------------------------- */

static bool has_name(const struct dlk_endpoint *ep)
{
	unsigned char to[sizeof(struct in6_addr)];

	return ep->scheme != DLK_UNIX &&
	       inet_pton(AF_INET, ep->host, to) != 1 &&
	       inet_pton(AF_INET6, ep->host, to) != 1;
}

/* The first name that is looked up for them, or NULL.  (A master has no name but the
 * Sentinels' for it.) */
static const char *name_of(const struct dlk_endpoint *ep)
{
	for (unsigned k = 0; k <= ep->n_sentinels; k++)
		if (!ep[k].n_sentinels && has_name(&ep[k]))
			return ep[k].host;
	return NULL;
}

void doctor_getent(struct doctor *d)
{
	const char *name = NULL;

	for (size_t i = 0; i < d->n_servers && !name; i++)
		name = name_of(d->servers[i].ep);
	if (name && access(GETENT, X_OK))
		doctor_find(d, DOCTOR_CRITICAL,
			    "the library looks a server's name up by it, and "
			    "its locks fail with ENOLCK",
			    "install it (Debian: libc-bin), or write the "
			    "server's address in the url",
			    "%s cannot be run, and \"%s\" is a name", GETENT,
			    name);
}

/* --- the log -------------------------------------------------------------- */

static bool syslog_hears(void)
{
	return !tool_listens("/dev/log", SOCK_DGRAM) ||
	       !tool_listens("/dev/log", SOCK_STREAM);
}

static bool sees_word(void *arg, const char *line)
{
	const char **word = arg;

	if (!strstr(line, *word))
		return true;
	*word = NULL;
	return false;
}

/* The line is read back; this is a child, whose log is its own. */
static void test_line(struct doctor *d)
{
	const char *setting = getenv("DLOCK_LOG");
	const char *file = setting ? strchr(setting, '/') : NULL;
	char word[48], *seen = word;
	int err;

	dlk_log_init(setting, false);
	err = dlk_log_open();
	snprintf(word, sizeof(word), "doctor %" PRIx64, dlk_now_ns());
	if (!err)
		dlk_log(DLK_ERROR, "test line of dlockctl ", word, NULL);
	if (file && !err)
		dlk_each_line(file, sees_word, &seen);
	if (file && (err || seen))
		doctor_find(d, DOCTOR_WARNING,
			    "what dlock has to say there is said elsewhere, or "
			    "to nobody",
			    "make it a regular file in a directory that the "
			    "programs' users may write to, or take it out of "
			    "DLOCK_LOG",
			    "DLOCK_LOG=%s: no line reaches that file: %s",
			    setting, err ? strerror(-err) : "it is not there");
}

void doctor_log(struct doctor *d)
{
	const char *setting = getenv("DLOCK_LOG");

	doctor_apart(d, test_line, d->user);
	if ((!setting || !strchr(setting, '/')) && !syslog_hears())
		doctor_find(d, DOCTOR_WARNING,
			    "a program whose standard error is closed or "
			    "/dev/null, as under cron, says to nobody that a "
			    "lock failed or is lost",
			    "start a system log (rsyslog, journald), or set "
			    "DLOCK_LOG=warning:/FILE for the programs",
			    "nobody listens at /dev/log");
}
