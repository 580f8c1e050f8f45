/* SPDX-License-Identifier: MIT */
/* Log lines; see log.h. */
#include "os/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include "os/sys.h"

enum { TAG_MAX = 32 }; /* RFC 3164, 4.1.3 */

/* Written before the first lock; read-only after, but for what is _Atomic. */
static struct {
	enum dlk_level level;
	bool have_stderr;
	dev_t dev; /* standard error's */
	ino_t ino;
	char setting[512];
	const char *file;  /* named by the setting; or NULL */
	const char *wrong; /* what is wrong with the setting; or NULL */
	struct dlk_own own;
	int err;             /* why the file is not written: -errno */
	pid_t pid;           /* whose memory this is */
	_Atomic bool opened; /* own.dev and own.ino are the file's */
	_Atomic bool opening;
	_Atomic bool told; /* what is wrong */
} log_to = { .level = DLK_WARNING, .own = { .fd = -1 } };

static const struct {
	const char *name;
	int severity;
} levels[] = {
	[DLK_ERROR] = { "error", LOG_ERR },
	[DLK_WARNING] = { "warning", LOG_WARNING },
	[DLK_INFO] = { "info", LOG_INFO },
	[DLK_DEBUG] = { "debug", LOG_DEBUG },
};

/* --- the setting ---------------------------------------------------------- */

/* Where nobody reads (cron), there is none; null(4). */
static void note_stderr(void)
{
	struct stat st;

	if (dlk_fstat(STDERR_FILENO, &st) < 0 ||
	    (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)))
		return;
	log_to.have_stderr = true;
	log_to.dev = st.st_dev;
	log_to.ino = st.st_ino;
}

static bool read_level(const char *name, size_t len)
{
	for (unsigned i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		if (strlen(levels[i].name) == len &&
		    strncmp(name, levels[i].name, len) == 0) {
			log_to.level = i;
			return true;
		}
	}
	return false;
}

static void read_setting(void)
{
	const char *colon = strchrnul(log_to.setting, ':');

	if (!read_level(log_to.setting, (size_t)(colon - log_to.setting)))
		log_to.wrong = "its level is none of error, warning, info and "
			       "debug; it is taken for warning";
	if (colon[0] && colon[1] == '/')
		log_to.file = colon + 1;
	else if (colon[0])
		log_to.wrong = "its file is no absolute path";
}

void dlk_log_init(const char *setting, bool use_stderr)
{
	size_t len = setting ? strlen(setting) : 0;

	log_to.pid = dlk_pid();
	if (use_stderr)
		note_stderr();
	if (len >= sizeof(log_to.setting))
		log_to.wrong = "it is longer than 511 bytes";
	if (len == 0 || log_to.wrong)
		return;
	memcpy(log_to.setting, setting, len + 1);
	read_setting();
}

bool dlk_log_wants(enum dlk_level level)
{
	return level <= log_to.level;
}

const char *dlk_log_setting(void)
{
	return log_to.setting;
}

static const char *reason(int err)
{
	if (err == -ELOOP)
		return "it is a symbolic link";
	if (err == -EINVAL)
		return "it is no regular file";
	return strerrordesc_np(-err) ?: "unknown error";
}

void dlk_log_complain(void)
{
	if ((!log_to.wrong && !log_to.err) ||
	    atomic_exchange(&log_to.told, true))
		return;
	if (log_to.wrong)
		dlk_log(DLK_WARNING, "DLOCK_LOG=", log_to.setting, ": ",
			log_to.wrong, NULL);
	else
		dlk_log(DLK_WARNING, "DLOCK_LOG: ", log_to.file,
			" is not written: ", reason(log_to.err),
			"; lines go to standard error, or to the system log",
			NULL);
}

/* --- the file ------------------------------------------------------------- */

/*
 * A regular file or none: a FIFO would hang the call, a device may do anything
 * when it is opened, and whoever may write to the directory could have the
 * lines of root go where a link of his leads.
 */
static int open_regular(int create, struct stat *st)
{
	int fd;

	if (dlk_stat(log_to.file, st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    !S_ISREG(st->st_mode))
		return S_ISLNK(st->st_mode) ? -ELOOP : -EINVAL;
	fd = (int)dlk_syscall(SYS_openat, AT_FDCWD, log_to.file,
			      O_WRONLY | O_APPEND | create | O_CLOEXEC |
				      O_NOCTTY | O_NOFOLLOW | O_NONBLOCK |
				      O_LARGEFILE,
			      0600);
	if (fd < 0)
		return -errno;
	if (dlk_fstat(fd, st) == 0 && S_ISREG(st->st_mode))
		return fd;
	dlk_close(fd);
	return -EINVAL;
}

int dlk_log_open(void)
{
	struct stat st;
	int fd;

	if (!log_to.file)
		return 0;
	fd = open_regular(O_CREAT, &st);
	log_to.err = fd < 0 ? fd : dlk_own_take(&log_to.own, fd);
	atomic_store(&log_to.opened, log_to.err == 0);
	return log_to.err;
}

void dlk_log_adopt(int fd)
{
	struct stat st;

	if (!log_to.file || dlk_fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	log_to.own = (struct dlk_own){ .fd = fd,
				       .dev = st.st_dev,
				       .ino = st.st_ino };
	atomic_store(&log_to.opened, true);
}

void dlk_log_forked(void)
{
	log_to.pid = dlk_pid();
	atomic_store(&log_to.opening, false);
}

bool dlk_log_is_own(int fd)
{
	return atomic_load(&log_to.opened) && log_to.own.fd == fd;
}

int dlk_log_fd(void)
{
	return atomic_load(&log_to.opened) && dlk_own_check(&log_to.own)
		       ? log_to.own.fd
		       : -1;
}

/*
 * The program closed it behind our back: the same file again, if its path still
 * leads there (not so after chroot(2), or by another's link); none is made.  Not
 * by a child that runs in its parent's memory.
 */
static void open_again(void)
{
	struct dlk_own was, now;
	struct stat st;
	int fd;

	if (dlk_pid() != log_to.pid || atomic_exchange(&log_to.opening, true))
		return;
	was = log_to.own;
	/* (Another thread may have opened it.) */
	if (!dlk_own_check(&was)) {
		dlk_own_close(&was);
		fd = open_regular(0, &st);
		if (fd >= 0 && (st.st_dev != was.dev || st.st_ino != was.ino))
			dlk_close(fd);
		else if (fd >= 0 && dlk_own_take(&now, fd) == 0)
			log_to.own.fd = now.fd;
	}
	atomic_store(&log_to.opening, false);
}

/*
 * A line must not end, or stop, the program: by SIGPIPE when nobody reads
 * standard error any more, SIGXFSZ at RLIMIT_FSIZE, SIGTTOU under `stty
 * tostop`.  The first two go to the writing thread (signal(7)), which takes
 * its own back.
 */
static bool quiet_write(long fd, const char *text, size_t len)
{
	static const struct timespec at_once;
	sigset_t raised, before, old;
	bool written;

	sigemptyset(&raised);
	sigaddset(&raised, SIGPIPE);
	sigaddset(&raised, SIGXFSZ);
	sigaddset(&raised, SIGTTOU);
	pthread_sigmask(SIG_BLOCK, &raised, &old);
	sigpending(&before);
	written = dlk_syscall(SYS_write, fd, text, len) > 0;
	for (int sig = 1; sig < NSIG; sig++)
		if (sigismember(&before, sig) == 1)
			sigdelset(&raised, sig);
	sigtimedwait(&raised, NULL, &at_once);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return written;
}

/* --- where a line goes ---------------------------------------------------- */

/*
 * Raw system calls throughout: in the shim, close() and the like are our own
 * exported wrappers, and the keeper's copy of this file must do the same.
 */
static bool to_file(const char *text, size_t len)
{
	int fd;

	if (!atomic_load(&log_to.opened))
		return false;
	fd = dlk_log_fd();
	if (fd < 0) {
		open_again();
		fd = dlk_log_fd();
	}
	return fd >= 0 && quiet_write(fd, text, len);
}

static bool stderr_is_still(void)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
	struct stat st;

	/* A pipe that is full, and whose reader sleeps, would hang a lock. */
	return log_to.have_stderr && dlk_poll(&p, 1, 0) == 1 &&
	       dlk_fstat(STDERR_FILENO, &st) == 0 && st.st_dev == log_to.dev &&
	       st.st_ino == log_to.ino;
}

static bool to_stderr(const char *text, size_t len)
{
	return stderr_is_still() && quiet_write(STDERR_FILENO, text, len);
}

static bool fits_tag(char c)
{
	return c > ' ' && c <= '~' && c != ':' && c != '[' && c != ']';
}

/* '<27>flock[4711]: ' */
static void syslog_prefix(struct dlk_text *t, int severity)
{
	const char *name = program_invocation_short_name;
	const size_t len = name ? strnlen(name, TAG_MAX) : 0;

	dlk_text_str(t, "<");
	dlk_text_i64(t, LOG_DAEMON | severity);
	dlk_text_str(t, ">");
	for (size_t i = 0; i < len; i++)
		dlk_text_bytes(t, fits_tag(name[i]) ? &name[i] : "_", 1);
	dlk_text_str(t, len ? "[" : "dlock[");
	dlk_text_i64(t, dlk_pid());
	dlk_text_str(t, "]: ");
}

/*
 * RFC 3164 without a time, which needs the time zone's file: whoever receives
 * it has a clock (4.3.2), and takes the program and its number from the tag.
 * Not by syslog(3), which allocates, and keeps a descriptor where the program
 * may open its own.
 */
static void to_syslog(int severity, const char *text, size_t len)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX,
				  .sun_path = "/dev/log" };
	char prefix[TAG_MAX + 40];
	struct dlk_text t;
	struct iovec iov[] = { { prefix, 0 },
			       { (void *)(uintptr_t)text, len } };
	struct msghdr msg = { .msg_name = &to,
			      .msg_namelen = sizeof(to),
			      .msg_iov = iov,
			      .msg_iovlen = 2 };
	long fd = dlk_syscall(SYS_socket, AF_UNIX,
			      SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return;
	dlk_text_init(&t, prefix, sizeof(prefix));
	syslog_prefix(&t, severity);
	iov[0].iov_len = t.len;
	(void)!dlk_syscall(SYS_sendmsg, fd, &msg, MSG_NOSIGNAL);
	dlk_syscall(SYS_close, fd);
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
		if (!to_file(l->buf, l->text.len + 1) &&
		    !to_stderr(l->buf, l->text.len + 1))
			to_syslog(levels[l->level].severity, l->buf,
				  l->text.len);
	}
	errno = saved;
}

void dlk_line_alarm(struct dlk_line *l)
{
	int saved = errno;

	l->buf[l->text.len] = '\n';
	if (!to_file(l->buf, l->text.len + 1))
		to_stderr(l->buf, l->text.len + 1);
	to_syslog(LOG_ALERT, l->buf, l->text.len);
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
