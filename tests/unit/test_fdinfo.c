/* SPDX-License-Identifier: MIT */
/*
 * What the kernel says of flock locks (proc(5), fdinfo and /proc/locks): the
 * locks of this very description and of no other, of this kind and no other.
 * First its texts as they were seen, then the running kernel itself.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/sys.h"
#include "model/fdinfo.h"
#include "model/timeline.h"

#define HEAD  "pos:\t0\nflags:\t0100002\nmnt_id:\t29\nino:\t10952755\n"
#define EX    "lock:\t1: FLOCK  ADVISORY  WRITE 2730 fe:00:10952755 0 EOF\n"
#define SH    "lock:\t1: FLOCK  ADVISORY  READ  2730 fe:00:10952755 0 EOF\n"
#define POSIX "lock:\t1: POSIX  ADVISORY  WRITE 2730 fe:00:10952755 0 9\n"
#define OFD   "lock:\t2: OFDLCK ADVISORY  READ  -1 fe:00:10952755 0 EOF\n"
#define LEASE "lock:\t3: LEASE  ACTIVE    WRITE 2730 fe:00:10952755 0 EOF\n"

static void no_lock_line_is_no_lock(void **state)
{
	(void)state;
	assert_int_equal(dlk_fdinfo_flock(HEAD), LOCK_UN);
	assert_int_equal(dlk_fdinfo_flock(""), LOCK_UN);
	assert_int_equal(dlk_fdinfo_flock("\n\n"), LOCK_UN);
}

static void write_is_exclusive(void **state)
{
	(void)state;
	assert_int_equal(dlk_fdinfo_flock(HEAD EX), LOCK_EX);
	assert_int_equal(dlk_fdinfo_flock(EX), LOCK_EX);
}

static void read_is_shared(void **state)
{
	(void)state;
	assert_int_equal(dlk_fdinfo_flock(HEAD SH), LOCK_SH);
}

static void record_locks_and_leases_are_not_flock(void **state)
{
	(void)state;
	assert_int_equal(dlk_fdinfo_flock(HEAD POSIX), LOCK_UN);
	assert_int_equal(dlk_fdinfo_flock(HEAD OFD), LOCK_UN);
	assert_int_equal(dlk_fdinfo_flock(HEAD LEASE), LOCK_UN);
	assert_int_equal(dlk_fdinfo_flock(HEAD POSIX OFD LEASE), LOCK_UN);
}

static void flock_is_found_among_the_others(void **state)
{
	(void)state;
	assert_int_equal(dlk_fdinfo_flock(HEAD POSIX OFD EX), LOCK_EX);
	assert_int_equal(dlk_fdinfo_flock(HEAD POSIX SH OFD LEASE), LOCK_SH);
}

static void a_last_line_may_lack_its_end(void **state)
{
	(void)state;
	assert_int_equal(dlk_fdinfo_flock(HEAD "lock:\t1: FLOCK  ADVISORY  "
					       "WRITE"),
			 LOCK_EX);
}

/* A text cut short, anywhere, is a lock or none: never another kind. */
static void a_cut_line_is_no_other_lock(void **state)
{
	char text[sizeof(HEAD SH)] = "";

	(void)state;
	for (size_t len = 0; len < sizeof(text); len++) {
		memcpy(text, HEAD SH, len);
		text[len] = '\0';
		assert_int_equal(dlk_fdinfo_flock(text),
				 strstr(text, "READ") ? LOCK_SH : LOCK_UN);
	}
}

static void a_mode_is_of_its_own_line(void **state)
{
	(void)state;
	assert_int_equal(dlk_fdinfo_flock("lock:\t1: FLOCK\nWRITE\n"), LOCK_UN);
	assert_int_equal(dlk_fdinfo_flock("lock:\t1: FLOCK  ADVISORY\nWRITE\n"),
			 LOCK_UN);
	assert_int_equal(dlk_fdinfo_flock("block:\t1: FLOCK  ADVISORY  WRITE"),
			 LOCK_UN);
}

/* --- /proc/locks ---------------------------------------------------------- */

static bool is_held(const char *line, uint64_t ino, struct dlk_lock_line *l)
{
	return dlk_lock_line(line, l) && l->kind == DLK_LINE_FLOCK &&
	       !l->waits && l->ino == ino;
}

static bool holds(const char *line, uint64_t ino, uint64_t pid)
{
	struct dlk_lock_line l;

	return is_held(line, ino, &l) && l.pid == (int64_t)pid;
}

static void a_holder_is_named(void **state)
{
	(void)state;
	assert_true(holds("1: FLOCK  ADVISORY  WRITE 2730 fe:00:10952755 0 EOF",
			  10952755, 2730));
	assert_true(holds("17: FLOCK  ADVISORY  READ  1 00:2d:7 0 EOF", 7, 1));
}

static void a_waiter_is_no_holder(void **state)
{
	(void)state;
	assert_false(holds("1: -> FLOCK  ADVISORY  WRITE 2731 fe:00:7 0 EOF", 7,
			   2731));
	assert_false(holds("1:  -> FLOCK  ADVISORY  WRITE 2731 fe:00:7 0 EOF",
			   7, 2731));
}

static void another_inode_is_another_file(void **state)
{
	static const char line[] = "1: FLOCK  ADVISORY  WRITE 5 fe:00:17 0 EOF";

	(void)state;
	assert_true(holds(line, 17, 5));
	assert_false(holds(line, 1, 5));
	assert_false(holds(line, 7, 5));
	assert_false(holds(line, 170, 5));
}

static void other_kinds_do_not_count(void **state)
{
	(void)state;
	assert_false(holds("1: POSIX  ADVISORY  WRITE 5 fe:00:7 0 EOF", 7, 5));
	assert_false(holds("1: OFDLCK ADVISORY  WRITE -1 fe:00:7 0 EOF", 7, 5));
	assert_false(holds("1: LEASE  ACTIVE    READ  5 fe:00:7 0 EOF", 7, 5));
}

static void a_broken_line_is_none(void **state)
{
	static const char *const bad[] = {
		"",
		"1:",
		"1: FLOCK ",
		"1: FLOCK  ADVISORY  WRITE",
		"1: FLOCK  ADVISORY  WRITE 5",
		"1: FLOCK  ADVISORY  WRITE 5 ",
		"1: FLOCK  ADVISORY  WRITE 5 fe",
		"1: FLOCK  ADVISORY  WRITE 5 fe:00",
		"1: FLOCK  ADVISORY  WRITE 5 fe:00:",
		"1: FLOCK  ADVISORY  WRITE 5 <none>:7 0 EOF",
		"1: FLOCK  ADVISORY  WRITE x fe:00:7 0 EOF",
		"1: FLOCK  ADVISORY  WRITE 5 fe:00:99999999999999999999 0 EOF",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(holds(bad[i], 7, 5));
}

static void fdinfo_tells_mode_and_taker_by_kind(void **state)
{
	struct dlk_lock_line l;

	(void)state;
	assert_true(dlk_fdinfo_lock(HEAD POSIX OFD SH, DLK_LINE_FLOCK, &l));
	assert_false(l.write);
	assert_int_equal(l.pid, 2730);
	assert_int_equal(l.ino, 10952755);
	assert_true(dlk_fdinfo_lock(HEAD SH POSIX OFD, DLK_LINE_POSIX, &l));
	assert_true(l.write);
	assert_int_equal(l.end, 9);
	assert_true(dlk_fdinfo_lock(HEAD SH POSIX OFD, DLK_LINE_OFD, &l));
	assert_int_equal(l.pid, -1);
	assert_false(dlk_fdinfo_lock(HEAD POSIX OFD LEASE, DLK_LINE_FLOCK, &l));
	assert_false(dlk_fdinfo_lock("lock:\t1: -> FLOCK  ADVISORY  WRITE 9 "
				     "fe:00:7 0 EOF\n",
				     DLK_LINE_FLOCK, &l));
}

/* --- one line, whole ------------------------------------------------------ */

static void a_line_is_read_whole(void **state)
{
	struct dlk_lock_line l;

	(void)state;
	assert_true(dlk_lock_line("lock:\t1: POSIX  ADVISORY  WRITE 2730 "
				  "fe:00:10952755 0 9",
				  &l));
	assert_int_equal(l.kind, DLK_LINE_POSIX);
	assert_true(l.write);
	assert_false(l.waits);
	assert_int_equal(l.pid, 2730);
	assert_int_equal(l.major, 0xfe);
	assert_int_equal(l.minor, 0);
	assert_int_equal(l.ino, 10952755);
	assert_int_equal(l.start, 0);
	assert_int_equal(l.end, 9);
	assert_true(dlk_lock_line("12: OFDLCK ADVISORY  READ  -1 00:2d:7 5 EOF",
				  &l));
	assert_int_equal(l.kind, DLK_LINE_OFD);
	assert_false(l.write);
	assert_int_equal(l.pid, -1);
	assert_int_equal(l.minor, 0x2d);
	assert_int_equal(l.start, 5);
	assert_int_equal(l.end, INT64_MAX);
	assert_true(
		dlk_lock_line("3: FLOCK  ADVISORY  WRITE 0 00:2d:7 0 EOF", &l));
	assert_int_equal(l.kind, DLK_LINE_FLOCK);
	assert_int_equal(l.pid, 0);
}

static void a_waiters_line_says_so(void **state)
{
	struct dlk_lock_line l;

	(void)state;
	assert_true(dlk_lock_line("1: -> POSIX  ADVISORY  READ 9 fe:00:7 10 19",
				  &l));
	assert_true(l.waits);
	assert_int_equal(l.pid, 9);
	assert_int_equal(l.end, 19);
	assert_true(dlk_lock_line(
		"1:   -> OFDLCK ADVISORY  WRITE -1 fe:00:7 0 EOF", &l));
	assert_true(l.waits);
}

static void the_last_byte_is_a_byte(void **state)
{
	struct dlk_lock_line l;

	(void)state;
	assert_true(dlk_lock_line("1: POSIX  ADVISORY  READ 9 fe:00:7 "
				  "9223372036854775806 9223372036854775807",
				  &l));
	assert_int_equal(l.start, INT64_MAX - 1);
	assert_int_equal(l.end, INT64_MAX);
	assert_false(dlk_lock_line("1: POSIX  ADVISORY  READ 9 fe:00:7 0 "
				   "9223372036854775808",
				   &l));
}

#define LINE(kind, mode, pid, file, range)                                     \
	"1: " kind " " mode " " pid " " file " " range

static void a_hostile_line_is_none(void **state)
{
	static const char *const bad[] = {
		"",
		" ",
		"lock:",
		"lock:\t",
		"1:",
		"->",
		"1: ->",
		LINE("POSIX  ADVISORY ", "WRITE", "5", "fe:00:7", ""),
		LINE("POSIX  ADVISORY ", "WRITE", "5", "fe:00:7", "0"),
		LINE("POSIX  ADVISORY ", "WRITE", "5", "fe:00:7", "0 "),
		LINE("POSIX  ADVISORY ", "WRITE", "5", "fe:00:7", "0 EO"),
		LINE("POSIX  ADVISORY ", "WRITE", "5", "fe:00:7", "0 EOFX"),
		LINE("POSIX  ADVISORY ", "WRITE", "5", "fe:00:7", "0 EOF "),
		LINE("POSIX  ADVISORY ", "WRITE", "5", "fe:00:7", "0 9 "),
		LINE("POSIX  ADVISORY ", "WRITE", "5", "fe:00:7", "0 9x"),
		LINE("POSIX  ADVISORY ", "WRITE", "5", "fe:00:7", "-1 9"),
		LINE("POSIX  ADVISORY ", "WRITE", "5", "fe:00:7", "9 0"),
		LINE("POSIX  ADVISORY ", "WRITE", "5", "fe:00:7",
		     "9223372036854775808 EOF"),
		LINE("POSIX  ADVISORY ", "WRITE", "5", "fe:00:7",
		     "99999999999999999999 EOF"),
		LINE("POSIX  ADVISORY ", "WRITE", "5", "<none>:0", "0 EOF"),
		LINE("POSIX  ADVISORY ", "WRITE", "5", "fe:00", "0 EOF"),
		LINE("POSIX  ADVISORY ", "WRITE", "5", "fe::7", "0 EOF"),
		LINE("POSIX  ADVISORY ", "WRITE", "5", "fe:00:7g", "0 EOF"),
		LINE("POSIX  ADVISORY ", "WRITE", "--5", "fe:00:7", "0 EOF"),
		LINE("POSIX  ADVISORY ", "WRITE", "x", "fe:00:7", "0 EOF"),
		LINE("POSIX  ADVISORY ", "WRITE", "2147483648", "fe:00:7",
		     "0 EOF"),
		LINE("POSIX  ADVISORY ", "WRITES", "5", "fe:00:7", "0 EOF"),
		LINE("POSIX  ADVISORY ", "UNLCK", "5", "fe:00:7", "0 EOF"),
		LINE("POSIX  MANDATORY", "WRITE", "5", "fe:00:7", "0 EOF"),
		LINE("POSIX  *NOINODE*", "WRITE", "5", "fe:00:7", "0 EOF"),
		LINE("POSIXADVISORY", "WRITE", "5", "fe:00:7", "0 EOF"),
		LINE("LEASE  ACTIVE   ", "WRITE", "5", "fe:00:7", "0 EOF"),
		LINE("DELEG  ACTIVE   ", "READ", "5", "fe:00:7", "0 EOF"),
	};
	struct dlk_lock_line l;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (dlk_lock_line(bad[i], &l))
			fail_msg("read: \"%s\"", bad[i]);
}

/* Cut short anywhere it is none: a shorter number would be another lock. */
static void a_line_cut_short_is_none(void **state)
{
	static const char line[] =
		"1: -> POSIX  ADVISORY  WRITE 2730 fe:00:109 10 EOF";
	char text[sizeof(line)];
	struct dlk_lock_line l;

	(void)state;
	for (size_t len = 0; len < sizeof(line) - 1; len++) {
		memcpy(text, line, len);
		text[len] = '\0';
		assert_false(dlk_lock_line(text, &l));
	}
	assert_true(dlk_lock_line(line, &l));
}

/* --- the running kernel --------------------------------------------------- */

struct files {
	char name[64];
	int a, b; /* two descriptions of one file */
	uint64_t ino;
};

static int open_files(void **state)
{
	static struct files f;
	struct stat st;

	snprintf(f.name, sizeof(f.name), "/tmp/dlk-fdinfo.XXXXXX");
	f.a = mkstemp(f.name);
	f.b = open(f.name, O_RDWR | O_CLOEXEC);
	if (f.a < 0 || f.b < 0 || fstat(f.a, &st) < 0)
		return -1;
	f.ino = st.st_ino;
	*state = &f;
	return 0;
}

static int close_files(void **state)
{
	struct files *f = *state;

	close(f->a);
	close(f->b);
	return unlink(f->name);
}

static int kernel_says(int fd)
{
	char path[64], text[4096];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	assert_true(dlk_slurp(path, text, sizeof(text)) > 0);
	return dlk_fdinfo_flock(text);
}

static void the_kernel_tells_every_mode(void **state)
{
	struct files *f = *state;

	assert_int_equal(kernel_says(f->a), LOCK_UN);
	assert_int_equal(flock(f->a, LOCK_SH), 0);
	assert_int_equal(kernel_says(f->a), LOCK_SH);
	assert_int_equal(flock(f->a, LOCK_EX), 0);
	assert_int_equal(kernel_says(f->a), LOCK_EX);
	assert_int_equal(flock(f->a, LOCK_UN), 0);
	assert_int_equal(kernel_says(f->a), LOCK_UN);
}

static void a_duplicate_shows_the_same_lock(void **state)
{
	struct files *f = *state;
	int copy = dup(f->a);

	assert_int_equal(flock(f->a, LOCK_EX), 0);
	assert_int_equal(kernel_says(copy), LOCK_EX);
	close(copy);
}

static void another_description_shows_none(void **state)
{
	struct files *f = *state;

	assert_int_equal(flock(f->a, LOCK_EX), 0);
	assert_int_equal(kernel_says(f->b), LOCK_UN);
}

static void the_kernels_record_locks_are_not_flock(void **state)
{
	struct files *f = *state;
	struct flock ofd = { .l_type = F_WRLCK };
	struct flock posix = { .l_type = F_RDLCK, .l_len = 1 };

	assert_int_equal(fcntl(f->a, F_SETLK, &posix), 0);
	posix.l_type = F_UNLCK;
	assert_int_equal(kernel_says(f->a), LOCK_UN);
	assert_int_equal(fcntl(f->a, F_SETLK, &posix), 0);
	assert_int_equal(fcntl(f->a, F_OFD_SETLK, &ofd), 0);
	assert_int_equal(kernel_says(f->a), LOCK_UN);
	assert_int_equal(flock(f->a, LOCK_SH), 0);
	assert_int_equal(kernel_says(f->a), LOCK_SH);
}

/*
 * Lines of /proc/locks that name f's flock holder; its waiters in *waiters.  Other
 * tests' locks come and go while it is read in pieces, and then a line of ours may
 * be there twice, or not (keeper/list.c).
 */
static unsigned holders(const struct files *f, uint64_t *pid, unsigned *waiters)
{
	FILE *locks = fopen("/proc/locks", "re");
	char line[256], file[32];
	unsigned n = 0;

	assert_non_null(locks);
	*waiters = 0;
	snprintf(file, sizeof(file), ":%ju ", (uintmax_t)f->ino);
	while (fgets(line, sizeof(line), locks)) {
		struct dlk_lock_line l;

		line[strcspn(line, "\n")] = '\0';
		if (is_held(line, f->ino, &l)) {
			*pid = (uint64_t)l.pid;
			n++;
		} else if (strstr(line, "-> FLOCK") && strstr(line, file)) {
			(*waiters)++;
		}
	}
	fclose(locks);
	return n;
}

static void assert_in_list(const struct files *f, unsigned n_holders,
			   unsigned n_waiters)
{
	const uint64_t until = dlk_now_ns() + 5000 * DLK_MS;
	unsigned waiters, n;
	uint64_t pid = 0;

	do {
		n = holders(f, &pid, &waiters);
	} while ((n != n_holders || waiters != n_waiters) &&
		 dlk_now_ns() < until);
	assert_int_equal(n, n_holders);
	assert_int_equal(waiters, n_waiters);
	assert_int_equal(pid, n_holders ? getpid() : 0);
}

static void the_kernel_names_the_holder(void **state)
{
	struct files *f = *state;

	assert_in_list(f, 0, 0);
	assert_int_equal(flock(f->a, LOCK_EX), 0);
	assert_in_list(f, 1, 0);
}

static void the_kernels_waiter_is_no_holder(void **state)
{
	struct files *f = *state;
	pid_t child;

	assert_int_equal(flock(f->a, LOCK_EX), 0);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(flock(f->b, LOCK_EX));
	}
	assert_in_list(f, 1, 1);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

#define kernel_test(f)                                                         \
	cmocka_unit_test_setup_teardown(f, open_files, close_files)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_lock_line_is_no_lock),
		cmocka_unit_test(write_is_exclusive),
		cmocka_unit_test(read_is_shared),
		cmocka_unit_test(record_locks_and_leases_are_not_flock),
		cmocka_unit_test(flock_is_found_among_the_others),
		cmocka_unit_test(a_last_line_may_lack_its_end),
		cmocka_unit_test(a_cut_line_is_no_other_lock),
		cmocka_unit_test(a_mode_is_of_its_own_line),
		cmocka_unit_test(a_holder_is_named),
		cmocka_unit_test(a_waiter_is_no_holder),
		cmocka_unit_test(another_inode_is_another_file),
		cmocka_unit_test(other_kinds_do_not_count),
		cmocka_unit_test(a_broken_line_is_none),
		cmocka_unit_test(fdinfo_tells_mode_and_taker_by_kind),
		cmocka_unit_test(a_line_is_read_whole),
		cmocka_unit_test(a_waiters_line_says_so),
		cmocka_unit_test(the_last_byte_is_a_byte),
		cmocka_unit_test(a_hostile_line_is_none),
		cmocka_unit_test(a_line_cut_short_is_none),
		kernel_test(the_kernel_tells_every_mode),
		kernel_test(a_duplicate_shows_the_same_lock),
		kernel_test(another_description_shows_none),
		kernel_test(the_kernels_record_locks_are_not_flock),
		kernel_test(the_kernel_names_the_holder),
		kernel_test(the_kernels_waiter_is_no_holder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
