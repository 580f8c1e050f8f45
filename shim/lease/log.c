/* SPDX-License-Identifier: MIT */
/* Log lines; see log.h. */
#include "lease/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "lease/sys.h"

/* Written once, before the first lock; read-only after. */
static struct {
	enum dlk_level level;
	bool have_stderr;
	dev_t dev;
	ino_t ino;
	char setting[512];
	const char *file;
} log_to = { .level = DLK_WARNING };

static const char *const names[] = { "error", "warning", "info", "debug" };

void dlk_log_init(const char *setting, bool use_stderr)
{
	struct stat st;
	size_t len = setting ? strlen(setting) : 0;

	if (use_stderr && dlk_fstat(STDERR_FILENO, &st) == 0) {
		log_to.have_stderr = true;
		log_to.dev = st.st_dev;
		log_to.ino = st.st_ino;
	}
	if (len == 0 || len >= sizeof(log_to.setting))
		return;
	memcpy(log_to.setting, setting, len + 1);
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t n = strlen(names[i]);

		if (strncmp(setting, names[i], n) == 0 &&
		    (setting[n] == '\0' || setting[n] == ':')) {
			log_to.level = i;
			if (setting[n] == ':' && setting[n + 1] == '/')
				log_to.file = log_to.setting + n + 1;
		}
	}
}

bool dlk_log_wants(enum dlk_level level)
{
	return level <= log_to.level;
}

const char *dlk_log_setting(void)
{
	return log_to.setting;
}

/*
 * A line must not end, or stop, the program: by SIGPIPE when nobody reads
 * standard error any more, SIGXFSZ at RLIMIT_FSIZE, SIGTTOU under `stty
 * tostop`.  The first two go to the writing thread (signal(7)), which takes
 * its own back.
 */
static void quiet_write(long fd, const char *text, size_t len)
{
	static const struct timespec at_once;
	sigset_t raised, before, old;

	sigemptyset(&raised);
	sigaddset(&raised, SIGPIPE);
	sigaddset(&raised, SIGXFSZ);
	sigaddset(&raised, SIGTTOU);
	pthread_sigmask(SIG_BLOCK, &raised, &old);
	sigpending(&before);
	(void)!dlk_syscall(SYS_write, fd, text, len);
	for (int sig = 1; sig < NSIG; sig++)
		if (sigismember(&before, sig) == 1)
			sigdelset(&raised, sig);
	sigtimedwait(&raised, NULL, &at_once);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/*
 * Raw system calls throughout: in the shim, close() and the like are our own
 * exported wrappers, and the keeper's copy of this file must do the same.
 */
static void to_file(const char *text, size_t len)
{
	long fd = dlk_syscall(
		SYS_openat, AT_FDCWD, log_to.file,
		O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);

	if (fd < 0)
		return;
	quiet_write(fd, text, len);
	dlk_syscall(SYS_close, fd);
}

static void to_syslog(const char *text, size_t len)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX,
				  .sun_path = "/dev/log" };
	char prefix[] = "<27>"; /* LOG_DAEMON | LOG_ERR */
	struct iovec iov[] = { { prefix, 4 },
			       { (void *)(uintptr_t)text, len } };
	struct msghdr msg = { .msg_name = &to,
			      .msg_namelen = sizeof(to),
			      .msg_iov = iov,
			      .msg_iovlen = 2 };
	long fd = dlk_syscall(SYS_socket, AF_UNIX,
			      SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return;
	(void)!dlk_syscall(SYS_sendmsg, fd, &msg, MSG_NOSIGNAL);
	dlk_syscall(SYS_close, fd);
}

static bool stderr_is_still(void)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
	struct stat st;

	/* A pipe that is full, and whose reader sleeps, would hang a lock. */
	return dlk_poll(&p, 1, 0) == 1 && log_to.have_stderr &&
	       dlk_fstat(STDERR_FILENO, &st) == 0 && st.st_dev == log_to.dev &&
	       st.st_ino == log_to.ino;
}

void dlk_line_begin(struct dlk_line *l, enum dlk_level level)
{
	l->level = level;
	/* One byte is kept for the newline. */
	dlk_text_init(&l->text, l->buf, sizeof(l->buf) - 1);
	dlk_text_str(&l->text, "dlock: ");
	if (level >= DLK_INFO) {
		dlk_text_u64(&l->text, (uint64_t)dlk_pid(), 0);
		dlk_text_str(&l->text, ": ");
	}
}

void dlk_line_end(struct dlk_line *l)
{
	int saved = errno;

	if (dlk_log_wants(l->level)) {
		l->buf[l->text.len] = '\n';
		if (log_to.file)
			to_file(l->buf, l->text.len + 1);
		else if (stderr_is_still())
			quiet_write(STDERR_FILENO, l->buf, l->text.len + 1);
		else
			to_syslog(l->buf, l->text.len);
	}
	errno = saved;
}

void dlk_log(enum dlk_level level, const char *part, ...)
{
	struct dlk_line l;
	va_list ap;

	if (!dlk_log_wants(level))
		return;
	dlk_line_begin(&l, level);
	va_start(ap, part);
	for (; part; part = va_arg(ap, const char *))
		dlk_text_str(&l.text, part);
	va_end(ap);
	dlk_line_end(&l);
}
