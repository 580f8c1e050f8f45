/* SPDX-License-Identifier: MIT */
/*
 * The beginning: settings are read in the constructor, for programs empty
 * their environment, chroot and drop privileges before they lock (DESIGN L7).
 *
 *  1. Without a configuration there is nothing to do, and nothing is done.
 *  2. A configuration that is broken, or named and not there, MUST NOT let a
 *     lock succeed that it may have meant: every lock call fails with ENOLCK
 *     and says why.  The program itself goes on; one that locks nothing does
 *     not even see a message.
 *  3. In secure mode (AT_SECURE) the environment is another's: only the
 *     compiled-in file counts.
 *  4. Who locks before there is a way to read it is refused, too.
 */
#include "entry/start.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/config.h"
#include "os/log.h"
#include "os/real.h"
#include "os/signals.h"
#include "os/sys.h"
#include "model/timeline.h"
#include "lease/store.h"
#include "hold/backstop.h"
#include "hold/keeper_client.h"
#include "hold/file_lock.h"
#include "hold/handover.h"
#include "hold/hold.h"
#include "hold/holds.h"
#include "hold/identity.h"
#include "hold/inherited.h"
#include "hold/local.h"
#include "hold/owner.h"
#include "hold/renewer.h"
#include "hold/schedule.h"
#include "hold/self.h"
#include "hold/shadow.h"
#include "hold/thread.h"
#include "hold/wait_report.h"
#include "lock/follow.h"
#include "lock/turn.h"

/* --- a child -------------------------------------------------------------- */

/* Wiped in a child of fork(2), see start.h. */
struct page {
	_Atomic pid_t pid;
};
static struct page *page, plain;

/* Where there is none to be had, pthread_atfork(3) alone tells of a child. */
static void make_page(void)
{
	const size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *p = dlk_pages(size);

	if (p && madvise(p, size, MADV_WIPEONFORK) < 0) {
		munmap(p, size);
		p = NULL;
	}
	page = p ?: &plain;
	dlk_self.pid = dlk_pid();
	atomic_store(&page->pid, dlk_self.pid);
}

void dlk_before_child(void)
{
	if (!dlk_alive())
		return;
	atomic_store(&dlk_self.shares, true);
	dlk_handover_all();
}

/* A thread has our descriptors, and is none of the others that L4 means; but by these
 * flags it may have a table of its own. */
void dlk_before_clone(uint64_t flags)
{
	if (!(flags & CLONE_THREAD))
		dlk_before_child();
	else if (!(flags & CLONE_FILES) && dlk_alive())
		atomic_store(&dlk_self.tables, true);
}

/* Its shadows are its descriptions' as well, and the log is everybody's. */
static bool stays_open(int fd)
{
	return dlk_shadow_is_own(fd) || dlk_log_is_own(fd);
}

static void forget_own(void)
{
	dlk_own_forget(stays_open);
}

static void forget_pid_namespace(void)
{
	dlk_note_pid_namespace(false);
}

/*
 * What a child of fork(2) starts anew, all of it: it has its parent's memory
 * but none of its threads, none of its leases (they stay with the description:
 * the parent's keeper sees their end), and must not speak on its connections.
 * The mutexes may be locked, by threads that are not here.
 */
static void (*const forget[])(void) = {
	dlk_backstop_forget,    dlk_holds_forget,     dlk_hold_forget,
	dlk_schedule_forget,    dlk_thread_forget,    dlk_local_forget,
	dlk_self_forget,        forget_pid_namespace, dlk_shadow_forked,
	dlk_file_locks_forget,  dlk_follow_forget,    dlk_inherited_forget,
	dlk_wait_report_forget, dlk_stores_forget,    dlk_keeper_forget,
	dlk_log_forked,         forget_own,           dlk_identity_forget,
	dlk_turns_forget,
};

static void after_fork(void)
{
	DLK_INSIDE(call);
	if (page != &plain && atomic_load(&page->pid) != 0)
		return;
	dlk_self.pid = dlk_pid();
	atomic_store(&page->pid, dlk_self.pid);
	for (size_t i = 0; i < sizeof(forget) / sizeof(forget[0]); i++)
		forget[i]();
}

/* --- the beginning -------------------------------------------------------- */

/* The keeper lies beside this library in the build tree, or is installed. */
static void find_keeper(bool secure)
{
	Dl_info info;
	char *slash;

	strcpy(dlk_self.keeper_path, DLK_LIBEXECDIR "/dlock-keeper");
	if (secure || !dladdr(&dlk_self, &info) || info.dli_fname[0] != '/' ||
	    strlen(info.dli_fname) + 16 > sizeof(dlk_self.keeper_path))
		return;
	strcpy(dlk_self.keeper_path, info.dli_fname);
	slash = strrchr(dlk_self.keeper_path, '/');
	strcpy(slash + 1, "dlock-keeper");
}

static bool is_disabled(void)
{
	const char *off = secure_getenv("DLOCK_DISABLE");

	return off && strcmp(off, "1") == 0;
}

/* Is there anything to do? */
static bool load_config(bool secure)
{
	const char *named = secure_getenv("DLOCK_CONFIG");
	const char *file = named && named[0] ? named : DLK_CONFIG_DEFAULT;
	int err = dlk_config_load(file, secure, NULL, NULL, &dlk_self.config,
				  &dlk_self.broken);

	if (err == 0) {
		dlk_self.broken.text[0] = '\0';
		return true; /* without a rule, too: that is to be said */
	}
	/* No file, and none was asked for. */
	return err != -ENOENT || file == named;
}

/* The last thing that is set is `on`: until then every hook passes through. */
static void turn_on(void)
{
	if (!page)
		make_page();
	if (dlk_renewer_begin() < 0)
		strcpy(dlk_self.broken.text, "no memory at start");
	dlk_owner_begin();
	dlk_log_open();
	dlk_stores_beside(dlk_self.keeper_path);
	pthread_atfork(dlk_before_child, NULL, after_fork);
	dlk_self.on = true;
}

/*
 * What the kernel left above argc and argv: libc's own constructor, which sets
 * `environ`, runs after a program's .preinit_array.
 */
extern void *__libc_stack_end;

static void find_environment(void)
{
	const uintptr_t *argc = __libc_stack_end;

	if (!environ && argc && argc[1 + *argc] == 0)
		environ = (char **)(uintptr_t)(argc + *argc + 2);
}

static void begin(bool secure)
{
	find_environment();
	if (is_disabled())
		return;
	dlk_log_init(secure_getenv("DLOCK_LOG"), true);
	if (load_config(secure))
		turn_on();
}

static bool is_configured(void)
{
	const char *named;

	find_environment();
	named = secure_getenv("DLOCK_CONFIG");
	if (is_disabled())
		return false;
	return (named && named[0]) ||
	       dlk_syscall(SYS_faccessat, AT_FDCWD, DLK_CONFIG_DEFAULT, F_OK) ==
		       0;
}

/*
 * The program's indirect functions are resolved while it is being relocated
 * (we are already): neither stdio nor dlopen(3) works yet.
 */
static bool is_relocating(void)
{
	return _r_debug.r_state != RT_CONSISTENT;
}

static void refuse_for_now(void)
{
	if (!is_configured())
		return;
	make_page();
	dlk_log_init(NULL, true);
	strcpy(dlk_self.broken.text, "the program is still being relocated");
	dlk_self.on = true;
}

/*
 * The constructors of the program's own libraries run before a preloaded
 * one's: whichever lock call comes first begins.
 */
static _Atomic pid_t beginner; /* the thread that does; BEGUN: it is done */
enum { BEGUN = -1 };

/*
 * They may have made threads.  Who comes while another one begins waits for it,
 * for nobody knows yet what is managed.  A child of fork(2) has no such thread.
 */
static bool is_first(void)
{
	const pid_t self = (pid_t)dlk_syscall(SYS_gettid);
	pid_t by = 0;

	while (!atomic_compare_exchange_strong(&beginner, &by, self)) {
		if (by == BEGUN)
			return false;
		if (dlk_thread_is_gone(by))
			continue;
		dlk_pause_ns(DLK_MS);
		by = 0;
	}
	return true;
}

/*
 * What wants the loader's lock comes before the wait, for who is in dlopen(3)
 * has it.  What is called here, and calls us, passes.
 */
__attribute__((constructor)) static void begin_once(void)
{
	static __thread bool here __attribute__((tls_model("initial-exec")));
	const bool secure = getauxval(AT_SECURE) != 0;
	int saved = errno;

	if (here || atomic_load(&beginner) == BEGUN)
		return;
	here = true;
	dlk_resolve_real();
	dlk_resolve_clock();
	find_keeper(secure);
	if (is_first()) {
		dlk_self.on = false;
		dlk_self.broken.text[0] = '\0';
		begin(secure);
		atomic_store(&beginner, BEGUN);
	}
	here = false;
	errno = saved;
}

/* What the constructor does, for a lock call that comes before it. */
static void begin_for_call(void)
{
	int saved = errno;

	if (!atomic_load(&beginner) && is_relocating())
		refuse_for_now();
	else
		begin_once();
	errno = saved;
}

/* --- each call ------------------------------------------------------------ */

enum dlk_presence dlk_presence(void)
{
	pid_t born;

	if (!dlk_self.on)
		begin_for_call();
	if (!dlk_self.on)
		return DLK_ABSENT;
	born = atomic_load(&page->pid);
	if (born == 0)
		after_fork();
	else if (born != dlk_pid())
		return DLK_BORROWED;
	return DLK_PRESENT;
}

bool dlk_alive(void)
{
	return dlk_presence() == DLK_PRESENT;
}
