/* SPDX-License-Identifier: MIT */
/*
 * Who has the lock of a lease, and so must be stopped when that is lost
 * (DESIGN L6): the holders, and those who work for them.
 *
 *  1. A holder of flock and OFD locks is a process with a descriptor of the
 *     locked description: its fdinfo shows the lock (proc(5): only those of this
 *     very description), and its taker; where he is dead and not shown, the
 *     readers of a file cannot be told apart, and count as one.  Of a shadow it
 *     is the program's description (kcmp(2)).  A POSIX lock's holder is its
 *     process.
 *  2. Whose children work under the lock without a descriptor (`flock -o f job`,
 *     Python's close-on-exec) is its taker: the tree below it, while it has the
 *     lock; when it has not, those below each holder.
 *  3. Whoever is found MUST still be so after its pidfd was opened, for a number
 *     may be another's by then.
 *  4. Not by SIGSTOP first: sudo(8) and its like stop with their child, for good.
 *     So what is started between a look and the kill is looked for: as a child
 *     before, as an orphan of the same session after it.
 *  5. Never a keeper, which has none of these descriptions.
 *  6. Nobody, where /proc shows another pid namespace: its numbers are others'
 *     here.
 *  7. Into whom we may not look (proc(5): his ids differ from each other, or he is
 *     not dumpable), or whom /proc hides (hidepid), is one if he is the process of
 *     the ADD and lives, until his shim has said that he has it no more.  (If he
 *     has closed it unseen since, and somebody has the lock yet, he is stopped in
 *     vain; the other way round, two hosts would have it.)
 *
 * A look at 500 processes takes 40 ms [m].
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "keeper/keeper.h"
#include "keeper/list.h"
#include "os/proc.h"
#include "os/sys.h"
#include "model/fdinfo.h"
#include "model/text.h"
#include "model/timeline.h"

enum { NAMED = 12 };
/* Descriptors that are looked for: of a cluster's 64 addresses few are connected to. */
enum { MOST_AT_ONCE = 64 };
enum { ATTEND_MS = 5 };
/* What a look may take for the leases beside. */
enum { BESIDE_MS = 20 };
enum { PF_EXITING = 4 }; /* proc_pid_stat(5), include/linux/sched.h */

/* --- the leases that are asked about -------------------------------------- */

struct wanted {
	uint64_t dev, ino;
	struct dlk_kept *k;
	bool beside; /* only others' locks are told from its own */
};

/* Which files they are of is found out when that is needed (learn_files). */
static struct {
	struct wanted *v;
	size_t n, room;
	struct dlk_kept *const *of, *const *beside;
	size_t of_n, beside_n;
} wanted;

/* Why not all could be looked at: the errno of what was lacking, or 0. */
static int lacked;
static uint64_t until_ns, heed_ns; /* dlk_victims' */
static unsigned looks;
static uint64_t beside_ns; /* what a look has taken for the leases beside */

static void note_lack(int err)
{
	if (err == EMFILE || err == ENFILE || err == ENOMEM)
		lacked = err;
}

const char *dlk_victims_why(int err)
{
	return err == ETIME ? "a look at all processes takes too long"
	       : err == ENXIO
		       ? "/proc is another pid namespace's (mount this one's own: "
			 "unshare --mount-proc)"
		       : strerrordesc_np(err) ?: "unknown error";
}

static void (*meanwhile)(void);

void dlk_victims_meanwhile(void (*fn)(void))
{
	meanwhile = fn;
}

/* A look may take seconds: whoever asks whether we live is answered amidst it. */
static void attend(void)
{
	static uint64_t next_ns;
	const uint64_t now = dlk_now_ns();

	if (!meanwhile || now < next_ns)
		return;
	next_ns = now + ATTEND_MS * DLK_MS;
	meanwhile();
}

static bool has_time(void)
{
	const uint64_t now = until_ns ? dlk_now_ns() : 0;

	attend();
	if (!until_ns || now < heed_ns ||
	    (now < until_ns && !dlk_shim_speaks()))
		return true;
	lacked = ETIME;
	return false;
}

static int by_file(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

static void want(struct dlk_kept *const *leases, size_t n)
{
	wanted.n = 0;
	wanted.of = leases;
	wanted.of_n = n;
	wanted.beside_n = 0;
}

static bool learn_file(struct dlk_kept *k, bool beside)
{
	const struct dlk_watch *w = k->watch;
	struct wanted file = { w->dev, w->node, k, beside };
	struct stat st;

	if (w->fd >= 0 && dlk_stat_known(w->fd, "", &st) == 0) {
		file.dev = st.st_dev;
		file.ino = st.st_ino;
	}
	if (!dlk_grow(&wanted.v, &wanted.room, wanted.n, sizeof(file)))
		return false;
	wanted.v[wanted.n++] = file;
	return true;
}

/* (Without memory for those beside nobody's is told from them.) */
static void learn_files(void)
{
	while (wanted.n < wanted.of_n)
		if (!learn_file(wanted.of[wanted.n], false)) {
			note_lack(ENOMEM);
			wanted.of_n = wanted.n;
		}
	for (size_t i = 0; i < wanted.beside_n; i++)
		learn_file(wanted.beside[i], true);
	qsort(wanted.v, wanted.n, sizeof(*wanted.v), by_file);
}

/* The first one of a file, or NULL; the others follow it. */
static const struct wanted *first_of(const struct stat *st)
{
	const struct wanted key = { .dev = st->st_dev, .ino = st->st_ino };
	const struct wanted *found =
		bsearch(&key, wanted.v, wanted.n, sizeof(*wanted.v), by_file);

	while (found && found > wanted.v && by_file(found - 1, &key) == 0)
		found--;
	return found;
}

/*
 * For a look when there is no other descriptor to be had: a directory, one in it,
 * and a file there.
 */
static int spare[3] = { -1, -1, -1 };

void dlk_victims_reserve(void)
{
	for (size_t i = 0; i < sizeof(spare) / sizeof(*spare); i++)
		if (spare[i] < 0)
			spare[i] = eventfd(0, EFD_CLOEXEC);
}

bool dlk_descriptors_are_left(unsigned n)
{
	int fds[MOST_AT_ONCE];
	unsigned got = 0;

	if (n > MOST_AT_ONCE)
		n = MOST_AT_ONCE;
	while (got < n && (fds[got] = eventfd(0, EFD_CLOEXEC)) >= 0)
		got++;
	dlk_close_all(fds, got);
	return got == n;
}

/* True: what has failed by that is to be tried again. */
static bool use_spare(int err)
{
	bool any = false;

	for (size_t i = 0; i < sizeof(spare) / sizeof(*spare); i++) {
		if (err != EMFILE || spare[i] < 0)
			continue;
		any = close(spare[i]) == 0;
		spare[i] = -1;
	}
	return any;
}

static DIR *look_into(const char *name)
{
	DIR *d = opendir(name);

	if (!d && use_spare(errno))
		d = opendir(name);
	if (!d)
		note_lack(errno);
	return d;
}

static bool read_text(const char *name, char *text, size_t size)
{
	ssize_t n = dlk_slurp(name, text, size);

	if (n < 0 && use_spare((int)-n))
		n = dlk_slurp(name, text, size);
	if (n < 0)
		note_lack((int)-n);
	return n > 0;
}

/* --- the processes -------------------------------------------------------- */

/* By the last look at all processes, in the order of pids; without pidfds. */
static struct dlk_victims seen;
static uint64_t seen_ticks; /* when it began, as proc_pid_stat(5) has a start */

static bool add(struct dlk_victims *list, const struct dlk_victim *v)
{
	if ((list->most && list->n >= list->most) ||
	    !dlk_grow(&list->v, &list->room, list->n, sizeof(*v))) {
		note_lack(list->most ? EMFILE : ENOMEM);
		return false;
	}
	list->v[list->n++] = *v;
	return true;
}

/* What proc_pid_stat(5) has of a process, or of a thread. */
static bool read_one(pid_t pid, struct dlk_victim *s)
{
	char name[DLK_NUMBERED_MAX], text[512], *begin;
	uint64_t parent, session, flags, start;

	if (!read_text(dlk_numbered(name, "/proc/", pid, "/stat"), text,
		       sizeof(text)) ||
	    !(begin = strchr(text, '(')) ||
	    !dlk_number(dlk_stat_field(text, 4), 10, &parent) ||
	    !dlk_number(dlk_stat_field(text, 6), 10, &session) ||
	    !dlk_number(dlk_stat_field(text, 9), 10, &flags) ||
	    !dlk_number(dlk_stat_field(text, 22), 10, &start))
		return false;
	*s = (struct dlk_victim){ .pid = pid,
				  .task = pid,
				  .parent = (pid_t)parent,
				  .session = (pid_t)session,
				  .start = start,
				  .state = *dlk_stat_field(text, 3),
				  .by = DLK_VICTIM_BY_PARENT,
				  .fd = -1,
				  .lock = -1,
				  .pipe = -1 };
	s->was_stopped = s->state == 'T';
	s->ends = flags & PF_EXITING;
	*strrchr(text, ')') = '\0';
	strncpy(s->command, begin + 1, sizeof(s->command) - 1);
	return true;
}

static bool has_ended(const struct dlk_victim *s)
{
	return s->state == 'Z' || s->state == 'X';
}

/*
 * Whose first thread has ended (pthread_exit(3)) goes on by another one, and what
 * he has open is that one's; false: by none.
 */
static bool goes_on(struct dlk_victim *s)
{
	char name[DLK_NUMBERED_MAX];
	struct dlk_victim thread;
	bool any = false;
	uint64_t task;
	DIR *d = look_into(dlk_numbered(name, "/proc/", s->pid, "/task"));

	while (!any && dlk_next_number(d, &task))
		any = read_one((pid_t)task, &thread) && !has_ended(&thread);
	if (d)
		closedir(d);
	if (!any)
		return false;
	s->task = thread.pid;
	s->state = thread.state;
	s->ends = thread.ends;
	s->was_stopped = thread.was_stopped;
	return true;
}

/* False: it has ended. */
static bool read_stat(pid_t pid, struct dlk_victim *s)
{
	return read_one(pid, s) && (!has_ended(s) || goes_on(s));
}

/* --- has a descriptor the lock? ------------------------------------------- */

enum { COMPARED = 32 };

static const char *fd_name(char name[DLK_NUMBERED_MAX], const char *what,
			   const struct dlk_victim *s, int fd)
{
	char dir[DLK_NUMBERED_MAX];

	return dlk_numbered(name, dlk_numbered(dir, "/proc/", s->task, what),
			    fd, "");
}

/* One description?  False with errno set, too, where there is no telling; else 0. */
static bool are_one(const struct dlk_victim *a, int a_fd,
		    const struct dlk_victim *b, int b_fd)
{
	long differ;

	errno = 0;
	differ = dlk_syscall(SYS_kcmp, a->task, b->task, KCMP_FILE, (long)a_fd,
			     (long)b_fd);
	return differ == 0;
}

static bool has_line(const struct dlk_victim *s, int fd,
		     enum dlk_line_kind kind, struct dlk_lock_line *l)
{
	char name[DLK_NUMBERED_MAX], text[4096];

	return read_text(fd_name(name, "/fdinfo/", s, fd), text,
			 sizeof(text)) &&
	       dlk_fdinfo_lock(text, kind, l);
}

/* By a look: whose is the OFD lock of a descriptor? */
enum whose {
	TAKERS,
	UNTOLD,
	OTHERS,         /* as seen now */
	OTHERS_FOR_NOW, /* what it is told from may not be all */
	OTHERS_BEFORE,
	NOBODYS, /* there is none */
};

/*
 * Another's, if it is of another description than all that the taker has of the file,
 * the first ones, and one of those is locked.  (What he took, and has no more, others
 * may have.)
 */
static enum whose compare(const struct dlk_victim *taker,
			  const struct dlk_victim *s, int fd)
{
	char name[DLK_NUMBERED_MAX];
	enum whose whose = UNTOLD;
	struct dlk_lock_line l;
	struct stat file, st;
	bool all = true;
	unsigned n = 0;
	uint64_t own;
	DIR *d;

	if (dlk_stat_known(AT_FDCWD, fd_name(name, "/fd/", s, fd), &file) < 0)
		return UNTOLD;
	d = look_into(dlk_numbered(name, "/proc/", taker->task, "/fd"));
	while (dlk_next_number(d, &own)) {
		dlk_numbered(name, "", (int64_t)own, "");
		if (dlk_stat_known(dirfd(d), name, &st) < 0) {
			all = false;
			continue;
		}
		if (st.st_dev != file.st_dev || st.st_ino != file.st_ino)
			continue;
		if (are_one(s, fd, taker, (int)own) || errno) {
			whose = errno ? UNTOLD : TAKERS;
			break;
		}
		if (whose == UNTOLD && n++ < COMPARED &&
		    has_line(taker, (int)own, DLK_LINE_OFD, &l))
			whose = OTHERS;
	}
	if (d)
		closedir(d);
	return whose == OTHERS && !all ? OTHERS_FOR_NOW : whose;
}

/* Until it has ended, or begun to: then it has nothing to compare with. */
static bool is_living(pid_t pid, struct dlk_victim *s)
{
	return dlk_shim_process_lives(pid) != 0 && read_stat(pid, s) &&
	       !s->ends;
}

static struct dlk_apart *find_apart(const struct dlk_kept *k,
				    const struct dlk_victim *s, int fd)
{
	if (k->apart.deadline_ns != k->deadline_ns)
		return NULL;
	for (size_t i = 0; i < k->apart.n; i++) {
		struct dlk_apart *o = &k->apart.v[i];

		if (o->pid == s->pid && o->start == s->start && o->fd == fd)
			return o;
	}
	return NULL;
}

/* (Who is not noted, for lack of memory, counts when the taker is dead.) */
static void note_apart(struct dlk_kept *k, const struct dlk_victim *s, int fd)
{
	struct dlk_apart *o = find_apart(k, s, fd);

	if (o) {
		o->look = looks;
		return;
	}
	if (k->apart.deadline_ns != k->deadline_ns)
		k->apart.n = 0;
	k->apart.deadline_ns = k->deadline_ns;
	if (dlk_grow(&k->apart.v, &k->apart.room, k->apart.n,
		     sizeof(*k->apart.v)))
		k->apart.v[k->apart.n++] =
			(struct dlk_apart){ s->pid, fd, s->start, looks };
}

static void forget_apart(struct dlk_kept *k, const struct dlk_victim *s, int fd)
{
	struct dlk_apart *o = find_apart(k, s, fd);

	if (o)
		*o = k->apart.v[--k->apart.n];
}

/* Who was told by an earlier look only has something else by now, perhaps. */
static void forget_older(struct dlk_kept *k)
{
	size_t n = 0;

	for (size_t i = 0; i < k->apart.n; i++)
		if (k->apart.v[i].look == looks)
			k->apart.v[n++] = k->apart.v[i];
	k->apart.n = n;
}

/* (Of one who died amidst a look the one before it counts.) */
static void end_apart(void)
{
	struct dlk_victim taker = { .pid = 0 };
	bool lives = false;

	for (size_t i = 0; i < wanted.n; i++) {
		struct dlk_kept *k = wanted.v[i].k;
		const pid_t pid = (pid_t)k->add.pid;

		if (!k->apart.n)
			continue;
		if (pid != taker.pid)
			lives = is_living(pid, &taker);
		taker.pid = pid;
		if (lives)
			forget_older(k);
	}
}

static bool has_it_of(const struct dlk_apart *o, const struct dlk_victim *s,
		      int fd)
{
	struct dlk_victim other;

	return (o->pid == s->pid || o->pid == s->parent) &&
	       read_stat(o->pid, &other) && other.start == o->start &&
	       are_one(s, fd, &other, o->fd);
}

/*
 * Who was told apart may have forked since, or have it by another number: then he who
 * is asked about is his child, or himself, and the description is one.
 */
static bool was_apart(struct dlk_kept *k, const struct dlk_victim *s, int fd)
{
	if (k->apart.deadline_ns != k->deadline_ns)
		return false;
	if (find_apart(k, s, fd))
		return true;
	for (size_t i = 0; i < k->apart.n; i++) {
		if (!has_it_of(&k->apart.v[i], s, fd))
			continue;
		note_apart(k, s, fd); /* for his own children */
		return true;
	}
	return false;
}

/* Inherited, it mostly has the same number. */
static bool is_inherited(const struct dlk_kept *k, const struct dlk_victim *s,
			 int fd)
{
	const struct dlk_victim taker = { .task = (pid_t)k->add.pid };

	return are_one(s, fd, &taker, fd);
}

/*
 * Of OFD locks the kernel names nobody: they are told by the descriptors of who took
 * it.  Once he is dead each may be his that was not told from it before.
 */
static enum whose whose_is(struct dlk_kept *k, const struct dlk_victim *s,
			   int fd)
{
	const pid_t pid = (pid_t)k->add.pid;
	enum whose whose = UNTOLD;
	struct dlk_victim taker, since;

	if (s->pid == pid || k->by != DLK_BY_PROCESS)
		return TAKERS;
	if (is_living(pid, &taker))
		whose = is_inherited(k, s, fd) ? TAKERS
					       : compare(&taker, s, fd);
	/* (He may have begun to end amidst that, and have closed it.) */
	if (whose != TAKERS && !is_living(pid, &since))
		return was_apart(k, s, fd) ? OTHERS_BEFORE : UNTOLD;
	if (whose == OTHERS && since.task != taker.task)
		whose = OTHERS_FOR_NOW;
	if (whose == OTHERS)
		note_apart(k, s, fd);
	else
		forget_apart(k, s, fd);
	return whose;
}

/* It has the lock, or may have it. */
static bool is_its(enum whose whose)
{
	return whose <= UNTOLD;
}

static enum whose whose_lock(struct dlk_kept *k, const struct dlk_victim *s,
			     int fd)
{
	const enum dlk_line_kind kind =
		k->add.kind == DLK_KEPT_FLOCK   ? DLK_LINE_FLOCK
		: k->add.kind == DLK_KEPT_POSIX ? DLK_LINE_POSIX
						: DLK_LINE_OFD;
	struct dlk_lock_line l;

	if (k->shadow)
		return dlk_shadow_copy_is(k->shadow, s->task, fd) ? TAKERS
								  : NOBODYS;
	if ((kind == DLK_LINE_POSIX && s->pid != (pid_t)k->add.pid) ||
	    !has_line(s, fd, kind, &l))
		return NOBODYS;
	if (kind == DLK_LINE_OFD)
		return whose_is(k, s, fd);
	return kind != DLK_LINE_FLOCK || !k->guard.pid || l.pid == 0 ||
			       (uint64_t)l.pid == k->guard.pid
		       ? TAKERS
		       : OTHERS;
}

/* --- what a process has --------------------------------------------------- */

/* If it is a holder, it is by this lease's lock. */
static enum whose note_lock(struct dlk_victim *s, struct dlk_kept *k, int fd)
{
	const enum whose whose = whose_lock(k, s, fd);

	if (!is_its(whose))
		return whose;
	s->k = k;
	s->by = fd;
	return whose;
}

static void note_shut(struct dlk_victim *s, int err)
{
	if (err == EACCES || err == EPERM)
		s->shut = err;
}

pid_t dlk_victims_ofd_taker(const struct dlk_kept *k)
{
	return k->state == DLK_KEPT && k->add.kind == DLK_KEPT_OFD &&
			       !k->shadow && k->by == DLK_BY_PROCESS
		       ? (pid_t)k->add.pid
		       : 0;
}

/* To tell it from it only.  (A taker may have thousands, and his children as many.) */
static enum whose look_beside(const struct dlk_victim *s, struct dlk_kept *k,
			      int fd)
{
	enum whose whose = UNTOLD;
	uint64_t began;

	if (s->pid == (pid_t)k->add.pid || beside_ns >= BESIDE_MS * DLK_MS)
		return UNTOLD;
	began = dlk_cpu_ns();
	if (is_inherited(k, s, fd)) {
		forget_apart(k, s, fd);
		whose = TAKERS;
	} else {
		whose = whose_lock(k, s, fd);
	}
	beside_ns += dlk_cpu_ns() - began;
	return whose;
}

static void note_as_well(const struct dlk_victim *s, struct dlk_kept *k, int fd)
{
	uint64_t began;

	if (beside_ns >= BESIDE_MS * DLK_MS)
		return;
	began = dlk_cpu_ns();
	note_apart(k, s, fd);
	beside_ns += dlk_cpu_ns() - began;
}

/* Of all of a taker's OFD locks of a file a descriptor has one, or none (compare). */
static void look_at_fd(struct dlk_victim *s, int dir, const char *name,
		       const struct dlk_kept *only)
{
	const struct wanted *w, *end = wanted.v + wanted.n;
	pid_t taker;
	pid_t not_of = 0,
	      perhaps_of = 0; /* whose it has none of, or may have */
	enum whose whose = UNTOLD;
	struct stat st;
	uint64_t fd;

	if (!dlk_number(name, 10, &fd))
		return;
	if (dlk_stat_known(dir, name, &st) < 0) {
		note_shut(s, errno);
		return;
	}
	for (w = first_of(&st); w && w < end; w++) {
		if (w->dev != st.st_dev || w->ino != st.st_ino)
			break;
		taker = dlk_victims_ofd_taker(w->k);
		if (w->k->shadow || (only && w->k != only))
			continue;
		if (taker && taker == not_of) {
			if (whose == OTHERS)
				note_as_well(s, w->k, (int)fd);
			continue;
		}
		if (w->beside && taker == perhaps_of) {
			if (whose == TAKERS)
				forget_apart(w->k, s, (int)fd);
			continue;
		}
		whose = w->beside ? look_beside(s, w->k, (int)fd)
				  : note_lock(s, w->k, (int)fd);
		if (!w->beside && is_its(whose))
			return;
		not_of = whose == OTHERS_BEFORE || is_its(whose) ? 0 : taker;
		perhaps_of = is_its(whose) ? taker : 0;
	}
	for (w = wanted.v; w < end; w++)
		if (w->k->shadow && (!only || w->k == only) &&
		    is_its(note_lock(s, w->k, (int)fd)))
			return;
}

/* It has this lease's lock, by its last word; by what it has executed since, too. */
static bool says_so(pid_t pid, const struct dlk_kept *k)
{
	const int lives = dlk_shim_process_lives(pid);

	return pid == (pid_t)k->add.pid && k->state == DLK_KEPT &&
	       k->by == DLK_BY_PROCESS &&
	       (lives < 0 ? dlk_shim_lives() : lives);
}

static void take_its_word(struct dlk_victim *s)
{
	for (size_t i = 0; i < wanted.of_n && s->shut && !s->k; i++) {
		if (!says_so(s->pid, wanted.of[i]))
			continue;
		s->k = wanted.of[i];
		s->by = DLK_VICTIM_BY_WORD;
	}
}

/* By which descriptor has it one of the leases' locks, or that of `only`? */
static void look_for(struct dlk_victim *s, const struct dlk_kept *only)
{
	char name[DLK_NUMBERED_MAX];
	const struct dirent *e;
	DIR *d = look_into(dlk_numbered(name, "/proc/", s->task, "/fd"));

	if (!d)
		note_shut(s, errno);
	if (wanted.n < wanted.of_n)
		learn_files();
	while (d && !s->k && has_time() && (e = readdir(d)))
		look_at_fd(s, dirfd(d), e->d_name, only);
	if (d)
		closedir(d);
}

static void look_at_fds(struct dlk_victim *s)
{
	look_for(s, NULL);
	take_its_word(s);
	dlk_victims_reserve();
}

/* The next process in "/proc" that is no keeper; false: there is none. */
static bool next_process(DIR *d, struct dlk_victim *s)
{
	uint64_t pid;

	while (dlk_next_number(d, &pid))
		if (read_stat((pid_t)pid, s) &&
		    !dlk_kernel_is_keeper(s->command))
			return true;
	return false;
}

static int by_pid(const void *a, const void *b)
{
	const struct dlk_victim *x = a, *y = b;

	return x->pid - y->pid;
}

/* Among the first n, which are in the order of pids. */
static struct dlk_victim *find_among(size_t n, pid_t pid)
{
	const struct dlk_victim key = { .pid = pid };

	return n ? bsearch(&key, seen.v, n, sizeof(*seen.v), by_pid) : NULL;
}

static struct dlk_victim *find(pid_t pid)
{
	return find_among(seen.n, pid);
}

static void put_in_order(void)
{
	if (seen.n)
		qsort(seen.v, seen.n, sizeof(*seen.v), by_pid);
}

/* A process of an ADD that lives, and of which /proc shows nothing. */
static void add_hidden(void)
{
	for (size_t i = 0; i < wanted.of_n; i++) {
		const pid_t pid = (pid_t)wanted.of[i]->add.pid;
		struct dlk_victim s;

		if (find(pid) || !says_so(pid, wanted.of[i]) ||
		    read_stat(pid, &s))
			continue;
		s = (struct dlk_victim){ .pid = pid,
					 .task = pid,
					 .k = wanted.of[i],
					 .by = DLK_VICTIM_BY_WORD,
					 .shut = ENOENT,
					 .lock = -1,
					 .pipe = -1,
					 .command = "?" };
		if (!add(&seen, &s))
			break;
		put_in_order();
	}
}

static bool is_among(size_t n, pid_t pid)
{
	for (size_t i = 0; i < n; i++)
		if (seen.v[i].pid == pid)
			return true;
	return false;
}

/* What a thread of it has started, but for takers, who are there. */
static void see_children(pid_t parent, uint64_t task, size_t takers)
{
	static char text[65536];
	char dir[DLK_NUMBERED_MAX], name[DLK_NUMBERED_MAX];
	const char *p = text;
	struct dlk_victim s;
	uint64_t pid;

	dlk_numbered(dir, "/proc/", parent, "/task/");
	dlk_numbered(name, dir, (int64_t)task, "/children");
	if (!read_text(name, text, sizeof(text)))
		return;
	while ((p = dlk_number(p, 10, &pid)) && *p++ == ' ')
		if (!is_among(takers, (pid_t)pid) &&
		    read_stat((pid_t)pid, &s) && s.parent == parent &&
		    !dlk_kernel_is_keeper(s.command))
			add(&seen, &s);
}

static void see_takers(void)
{
	struct dlk_victim s;
	pid_t last = 0, pid;

	for (size_t i = 0; i < wanted.of_n; i++, last = pid) {
		pid = (pid_t)wanted.of[i]->add.pid;
		if (pid == last || is_among(seen.n, pid) || !read_stat(pid, &s))
			continue;
		look_at_fds(&s);
		if (s.k)
			add(&seen, &s);
	}
}

/*
 * First the takers, and whom they have started: who works for a holder is found by him,
 * and he may be dead by the end of the look, of his own timer.  What those have open
 * comes in its turn.
 */
static void see_families(void)
{
	size_t takers;

	see_takers();
	takers = seen.n;
	for (size_t i = 0; i < seen.n; i++) {
		const pid_t pid = seen.v[i].pid;
		char name[DLK_NUMBERED_MAX];
		uint64_t task;
		DIR *d = look_into(dlk_numbered(name, "/proc/", pid, "/task"));

		attend();
		while (dlk_next_number(d, &task))
			see_children(pid, task, takers);
		if (d)
			closedir(d);
	}
	dlk_victims_reserve();
	put_in_order();
}

static void look_at_all(void)
{
	size_t families;
	DIR *d;
	struct dlk_victim s, *its;

	see_families();
	families = seen.n;
	d = look_into("/proc");
	while (d && has_time() && next_process(d, &s)) {
		its = find_among(families, s.pid);
		if (its && its->k)
			continue;
		/* (He may have been adopted since.) */
		if (its && its->start == s.start)
			s.parent = its->parent;
		look_at_fds(&s);
		if (its)
			*its = s;
		else if (!add(&seen, &s))
			break;
	}
	if (d)
		closedir(d);
	put_in_order();
	add_hidden();
}

/* --- who works for them --------------------------------------------------- */

/* He was found by one of the locks that he has: has he this one as well? */
static bool has_yet(const struct dlk_victim *taker, const struct dlk_kept *k)
{
	struct dlk_victim its = *taker;

	if (!taker->k || taker->by == DLK_VICTIM_BY_PARENT)
		return false;
	if (taker->k == k)
		return true;
	if (taker->by == DLK_VICTIM_BY_WORD)
		return says_so(taker->pid, k);
	its.k = NULL;
	look_for(&its, k);
	dlk_victims_reserve();
	return its.k != NULL;
}

static const struct dlk_victim *listed(const struct dlk_victims *list, size_t n,
				       pid_t pid)
{
	for (size_t i = 0; i < n; i++)
		if (list->v[i].pid == pid)
			return &list->v[i];
	return NULL;
}

bool dlk_victims_has(const struct dlk_victims *list, size_t n, pid_t pid)
{
	return listed(list, n, pid) != NULL;
}

bool dlk_victims_has_let_go(const struct dlk_victims *list, pid_t pid)
{
	const struct dlk_victim *v = listed(list, list->n, pid);

	return v && v->fd < 0;
}

/*
 * Has its taker the lock yet?  Then only his children work under it; and so it is if we
 * have killed him, who had it by his word.
 */
static bool is_root(const struct dlk_victims *list, const struct dlk_victim *s)
{
	const struct dlk_victim *taker;
	pid_t pid;

	if (!s->k || s->by == DLK_VICTIM_BY_PARENT)
		return false;
	pid = (pid_t)s->k->add.pid;
	if (s->pid == pid)
		return true;
	if (s->k->by == DLK_BY_PROCESS && dlk_victims_has_let_go(list, pid))
		return false;
	taker = find(pid);
	return !taker || !has_yet(taker, s->k);
}

static bool has_ancestor(const struct dlk_victim *s,
			 const struct dlk_victim **root)
{
	for (int depth = 0; s && s->parent > 0 && depth < 1000; depth++) {
		s = find(s->parent);
		if (s && s->leads) {
			*root = s;
			return true;
		}
	}
	return false;
}

static void find_descendants(const struct dlk_victims *list)
{
	const struct dlk_victim *root;

	for (size_t i = 0; i < seen.n; i++)
		seen.v[i].leads = is_root(list, &seen.v[i]);
	for (size_t i = 0; i < seen.n; i++) {
		if (seen.v[i].leads || !has_ancestor(&seen.v[i], &root))
			continue;
		seen.v[i].leads = true;
		if (!seen.v[i].k)
			seen.v[i].k = root->k;
	}
}

/* --- the list ------------------------------------------------------------- */

/* Or who was it is killed, and he is adopted. */
static bool has_parent(const struct dlk_victims *list,
		       const struct dlk_victim *v, const struct dlk_victim *now)
{
	return now->parent == v->parent ||
	       (now->session == v->session &&
		dlk_victims_has_let_go(list, v->parent));
}

/* Is it he yet, who was seen?  (He may go by another name.) */
static bool is_same(const struct dlk_victims *list, struct dlk_victim *v)
{
	struct dlk_victim now;

	if (!read_stat(v->pid, &now))
		return v->shut == ENOENT && says_so(v->pid, v->k);
	memcpy(v->command, now.command, sizeof(v->command));
	v->task = now.task;
	return v->by == DLK_VICTIM_BY_PARENT ? has_parent(list, v, &now)
	       : v->by == DLK_VICTIM_BY_WORD
		       ? says_so(v->pid, v->k)
		       : is_its(whose_lock(v->k, v, v->by));
}

void dlk_victim_unwatch(struct dlk_victim *v)
{
	if (v->pipe < 0)
		return;
	/* A standby that was made just now has a copy of the description. */
	fcntl(v->pipe, F_SETFL, O_NONBLOCK);
	dlk_close_all(&v->pipe, 1);
}

static void free_one(struct dlk_victim *v)
{
	dlk_victim_unwatch(v);
	dlk_close_all(&v->fd, 1);
	dlk_close_all(&v->lock, 1);
}

static bool list_one(struct dlk_victims *list, const struct dlk_victim *s)
{
	struct dlk_victim v = *s;
	bool same;

	attend();
	v.fd = (int)dlk_syscall(SYS_pidfd_open, s->pid, 0);
	if (v.fd < 0 && use_spare(errno))
		v.fd = (int)dlk_syscall(SYS_pidfd_open, s->pid, 0);
	if (v.fd < 0) {
		note_lack(errno);
		return false;
	}
	same = is_same(list, &v);
	dlk_victims_reserve();
	if (same && add(list, &v))
		return true;
	close(v.fd);
	return false;
}

/* --- all processes -------------------------------------------------------- */

uint64_t dlk_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static void begin_look(struct dlk_victims *list)
{
	lacked = 0;
	beside_ns = 0;
	looks++;
	until_ns = list->until_ns;
	heed_ns = list->heed_ns;
	list->cpu_ns = dlk_cpu_ns();
	list->took_ns = dlk_now_ns();
}

static void end_look(struct dlk_victims *list)
{
	until_ns = heed_ns = 0;
	list->err = lacked;
	list->cpu_ns = dlk_cpu_ns() - list->cpu_ns;
	list->took_ns = dlk_now_ns() - list->took_ns;
}

/* Those of the look who are not in the list yet. */
static size_t list_seen(struct dlk_victims *list)
{
	size_t found = 0;

	for (size_t i = 0; i < seen.n; i++)
		if (seen.v[i].k &&
		    !dlk_victims_has(list, list->n, seen.v[i].pid))
			found += list_one(list, &seen.v[i]);
	return found;
}

size_t dlk_victims_find(struct dlk_victims *list,
			struct dlk_kept *const *leases, size_t n,
			struct dlk_kept *const *beside, size_t n_beside)
{
	size_t found;

	begin_look(list);
	want(leases, n);
	wanted.beside = beside;
	wanted.beside_n = n_beside;
	learn_files();
	seen.n = 0;
	seen_ticks =
		dlk_now_ns() / 1000 * (uint64_t)sysconf(_SC_CLK_TCK) / 1000000;
	if (dlk_kernel_shows_our_pids() != 0)
		look_at_all();
	else
		lacked = ENXIO;
	until_ns = 0; /* the rest is about who was seen */
	find_descendants(list);
	if (lacked != ETIME)
		end_apart();
	seen.err = lacked;
	found = list_seen(list);
	end_look(list);
	return found;
}

bool dlk_victims_were_cut(void)
{
	return seen.err == ETIME;
}

bool dlk_victims_lacked_nothing(void)
{
	return !seen.err || dlk_victims_were_cut();
}

size_t dlk_victims_find_rest(struct dlk_victims *list)
{
	size_t found;

	begin_look(list);
	lacked = seen.err;
	found = list_seen(list);
	end_look(list);
	return found;
}

/* --- what they have started since ----------------------------------------- */

static bool list_child(struct dlk_victims *list, const struct dlk_victim *of,
		       pid_t pid)
{
	struct dlk_victim s;

	/* (A keeper is the child of a holder that is a subreaper, prctl(2).) */
	if (dlk_victims_has(list, list->n, pid) || !read_stat(pid, &s) ||
	    dlk_kernel_is_keeper(s.command))
		return false;
	s.leads = of->leads;
	look_at_fds(&s);
	if (s.k && list_one(list, &s))
		return true;
	s.k = of->k;
	s.by = DLK_VICTIM_BY_PARENT;
	return of->leads && list_one(list, &s);
}

/* proc_pid_children(5).  (The number was his if he lives after that.) */
static size_t list_children(struct dlk_victims *list, struct dlk_victim of,
			    uint64_t task)
{
	char dir[DLK_NUMBERED_MAX], name[DLK_NUMBERED_MAX], text[4096];
	const char *p = text;
	size_t found = 0;
	uint64_t pid;

	dlk_numbered(dir, "/proc/", of.pid, "/task/");
	dlk_numbered(name, dir, (int64_t)task, "/children");
	if (!read_text(name, text, sizeof(text)) || dlk_victim_has_ended(&of))
		return 0;
	while ((p = dlk_number(p, 10, &pid)) && *p++ == ' ')
		found += list_child(list, &of, (pid_t)pid);
	return found;
}

/* (Those that are found are looked at as well.) */
size_t dlk_victims_find_children(struct dlk_victims *list)
{
	size_t found = 0;

	for (size_t i = 0; i < list->n && has_time(); i++) {
		char name[DLK_NUMBERED_MAX];
		uint64_t task;
		DIR *d = look_into(
			dlk_numbered(name, "/proc/", list->v[i].pid, "/task"));

		while (dlk_next_number(d, &task))
			found += list_children(list, list->v[i], task);
		if (d)
			closedir(d);
	}
	dlk_victims_reserve();
	list->err = lacked;
	return found;
}

size_t dlk_descriptors_left(void)
{
	struct rlimit rl = { .rlim_cur = 1024 };
	size_t used = 0;
	uint64_t fd;
	DIR *d = look_into("/proc/self/fd");

	if (!d)
		return 0;
	while (dlk_next_number(d, &fd))
		used += (int)fd != dirfd(d);
	for (size_t i = 0; i < sizeof(spare) / sizeof(*spare); i++)
		used += spare[i] < 0;
	closedir(d);
	dlk_victims_reserve();
	getrlimit(RLIMIT_NOFILE, &rl);
	return rl.rlim_cur > used ? rl.rlim_cur - used : 0;
}

size_t dlk_victims_find_born(struct dlk_victims *list,
			     struct dlk_kept *const *leases, size_t n)
{
	size_t found;

	begin_look(list);
	want(leases, n);
	found = dlk_victims_find_children(list);
	end_look(list);
	return found;
}

/* --- the same ones, again ------------------------------------------------- */

bool dlk_victims_leave(struct dlk_victims *list,
		       bool (*is_about)(const struct dlk_kept *k))
{
	bool same = true;
	size_t kept = 0;

	for (size_t i = 0; i < list->n; i++) {
		struct dlk_victim *v = &list->v[i];

		if (is_about(v->k)) {
			list->v[kept++] = *v;
			continue;
		}
		same &= dlk_victim_has_ended(v) &&
			v->pid != (pid_t)v->k->add.pid;
		free_one(v);
	}
	list->n = kept;
	return same;
}

bool dlk_victims_refresh(struct dlk_victims *list,
			 struct dlk_kept *const *leases, size_t n)
{
	bool same = true;
	size_t kept = 0;

	begin_look(list);
	want(leases, n);
	for (size_t i = 0; i < list->n; i++) {
		struct dlk_victim now = list->v[i];
		const bool dead = dlk_victim_has_ended(&now);

		/* (Whose parent has ended may have been adopted, and works under
		 * it yet.) */
		if (!dead && is_same(list, &now)) {
			list->v[kept++] = list->v[i];
			continue;
		}
		same &= dead && now.pid != (pid_t)now.k->add.pid;
		free_one(&list->v[i]);
	}
	list->n = kept;
	dlk_victims_find_children(list);
	end_look(list);
	return same;
}

/* By a descriptor of its own; its parent. */
static bool list_holder(struct dlk_victims *list, pid_t pid, bool leads,
			pid_t *parent)
{
	struct dlk_victim s;

	if (!read_stat(pid, &s) || dlk_kernel_is_keeper(s.command))
		return false;
	s.leads = leads;
	look_at_fds(&s);
	*parent = s.parent;
	return s.k && list_one(list, &s);
}

bool dlk_victims_find_family(struct dlk_victims *list,
			     struct dlk_kept *const *leases, size_t n)
{
	bool all = dlk_kernel_shows_our_pids() != 0;
	pid_t pid;

	begin_look(list);
	want(leases, n);
	for (size_t i = 0; i < n && all; i++) {
		pid = (pid_t)leases[i]->add.pid;
		if (dlk_victims_has(list, list->n, pid))
			continue;
		all = list_holder(list, pid, true, &pid);
		while (all && !dlk_victims_has(list, list->n, pid) &&
		       list_holder(list, pid, false, &pid))
			;
	}
	dlk_victims_find_children(list);
	end_look(list);
	return all;
}

/* --- what had no parent by then ------------------------------------------- */

/* (Of a look that was cut, not all who were there are seen.) */
static bool came_since_the_look(const struct dlk_victim *s)
{
	return s->start >= seen_ticks && !find(s->pid);
}

/* Of one that led, and is dead: it came after the look, and is adopted. */
static bool is_orphan(const struct dlk_victims *list,
		      const struct dlk_victim *s, const struct dlk_victim **of)
{
	struct dlk_victim parent;

	for (size_t i = 0; i < list->n; i++) {
		*of = &list->v[i];
		if (list->v[i].leads && list->v[i].session == s->session)
			/* (0: its parent is outside of our namespace.) */
			return came_since_the_look(s) &&
			       !dlk_victims_has(list, list->n, s->pid) &&
			       s->parent > 0 && read_stat(s->parent, &parent) &&
			       parent.session != s->session;
	}
	return false;
}

size_t dlk_victims_find_orphans(struct dlk_victims *list)
{
	const struct dlk_victim *of;
	size_t found = 0;
	struct dlk_victim s;
	DIR *d = look_into("/proc");

	while (next_process(d, &s)) {
		attend();
		if (!is_orphan(list, &s, &of))
			continue;
		s.k = of->k;
		found += list_one(list, &s);
	}
	if (d)
		closedir(d);
	dlk_victims_reserve();
	list->err = lacked;
	return found;
}

/* -------------------------------------------------------------------------- */

void dlk_victims_signal(struct dlk_victims *list, size_t from, int sig)
{
	for (size_t i = from; i < list->n; i++) {
		struct dlk_victim *v = &list->v[i];

		if (v->fd < 0)
			continue;
		/* Of its namespace, which ends with it: it takes no signal. */
		v->err = v->pid == 1 ? EPERM : 0;
		if (!v->err &&
		    dlk_syscall(SYS_pidfd_send_signal, v->fd, sig, NULL, 0) <
			    0 &&
		    errno != ESRCH)
			v->err = errno;
	}
}

void dlk_victims_let_go(struct dlk_victims *list)
{
	for (size_t i = 0; i < list->n; i++)
		dlk_close_all(&list->v[i].fd, 1);
}

bool dlk_victim_ends(const struct dlk_victim *v, uint64_t late_ns)
{
	const uint64_t now = dlk_now_ns();
	const uint64_t left = now < late_ns ? late_ns - now : 0;

	return dlk_polled(v->fd, POLLIN, (int)(left / DLK_MS)) != 0;
}

bool dlk_victim_has_ended(const struct dlk_victim *v)
{
	return dlk_victim_ends(v, 0);
}

bool dlk_victims_are_guessed(const struct dlk_victims *list, size_t from)
{
	bool any = false;

	for (size_t i = from; i < list->n; i++)
		any |= list->v[i].by == DLK_VICTIM_BY_WORD;
	return any;
}

/* --- what is said of them ------------------------------------------------- */

void dlk_victim_put(struct dlk_text *t, const struct dlk_victim *v)
{
	dlk_text_i64(t, v->pid);
	dlk_text_str(t, " (");
	dlk_text_quoted(t, v->command, strlen(v->command));
	dlk_text_str(t, ")");
}

static const char *why_shut(const struct dlk_victim *v)
{
	return v->shut == ENOENT ? "/proc hides it: hidepid"
				 : strerrordesc_np(v->shut);
}

/* One of the four ids of a "Uid:" line (proc_pid_status(5)) is one of ours. */
static bool note_akin(void *akin, const char *line)
{
	const char *p = line + 4;
	uid_t own[3];
	uint64_t id;

	if (strncmp(line, "Uid:", 4) != 0)
		return true;
	getresuid(&own[0], &own[1], &own[2]);
	while (*p++ == '\t' && (p = dlk_number(p, 10, &id)))
		for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
			*(bool *)akin |= id == own[i];
	return false;
}

static bool may_have_it(const struct dlk_victim *s)
{
	char name[DLK_NUMBERED_MAX];
	bool akin = false;

	if (s->shut && !s->k)
		dlk_each_line(dlk_numbered(name, "/proc/", s->pid, "/status"),
			      note_akin, &akin);
	return akin;
}

static void put_rest(struct dlk_text *t, unsigned n)
{
	if (n <= NAMED)
		return;
	dlk_text_str(t, " and ");
	dlk_text_i64(t, n - NAMED);
	dlk_text_str(t, " more");
}

bool dlk_victims_put_shut(struct dlk_text *t, const char *what)
{
	unsigned n = 0;

	for (size_t i = 0; i < seen.n; i++) {
		if (!may_have_it(&seen.v[i]))
			continue;
		if (n++ >= NAMED)
			continue;
		dlk_text_str(t, n > 1 ? ", " : what);
		dlk_victim_put(t, &seen.v[i]);
		dlk_text_strs(t, ": ", why_shut(&seen.v[i]), NULL);
	}
	put_rest(t, n);
	return n > 0;
}

void dlk_victims_put(struct dlk_text *t, const struct dlk_victims *list,
		     const struct dlk_kept *k,
		     bool (*is_one)(const struct dlk_victim *v),
		     const char *what)
{
	unsigned n = 0;

	for (size_t i = 0; i < list->n; i++) {
		const struct dlk_victim *v = &list->v[i];

		if (v->k != k || !is_one(v))
			continue;
		if (n == 0)
			dlk_text_str(t, what);
		if (n++ >= NAMED)
			continue;
		dlk_text_str(t, n > 1 ? ", " : " ");
		dlk_victim_put(t, v);
		if (v->by == DLK_VICTIM_BY_WORD)
			dlk_text_strs(t,
				      ", which took it, and may not be "
				      "looked into (",
				      why_shut(v), ")", NULL);
		if (v->err)
			dlk_text_strs(t, ": ", strerrordesc_np(v->err), NULL);
	}
	put_rest(t, n);
}

char dlk_victim_state(const struct dlk_victim *v)
{
	struct dlk_victim now;

	return read_stat(v->pid, &now) && !dlk_victim_has_ended(v) ? now.state
								   : '\0';
}

void dlk_victims_free(struct dlk_victims *list, size_t from)
{
	for (size_t i = from; i < list->n; i++)
		free_one(&list->v[i]);
	list->n = from;
}
